"""`tidemill results`: the outcome of every finished item."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidemill.cli.options import common, job_argument, load_job
from tidemill.cli.show import mebibytes, show_origins, show_table
from tidemill.figures import duration
from tidemill.job import Item

if TYPE_CHECKING:
    from tidemill.ledger import Outcome

FIGURES = ("item", "status", "attempts", "wall", "CPU", "memory")
WHOLE = (*FIGURES, "uri", "output, value or error")
NARROW = (*FIGURES, "name", "value or error")
ROWS_A_TABLE = 1000
FORMULAS = (
    "begin with =, +, - or @, and a spreadsheet may run those as formulas. If you open the list in one, import its "
    "columns as text."
)
SHOWN = 120
"""Characters shown of the end of an error, and of the beginning of a value."""


@click.command()
@job_argument
@click.option("--failed", is_flag=True, help="Only items that failed.")
@click.option(
    "--file",
    metavar="FILE",
    help="Write the outcomes to a file: .jsonl, .csv, or .parquet (needs pip install 'tidemill[parquet]').",
)
@click.option(
    "--format", "form", type=click.Choice(["jsonl", "csv", "parquet"]), help="The file's format. Default: its ending."
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with a column per key of the items' metadata.")
@click.option("--wide", is_flag=True, help="Whole URIs and outputs, as a pipe gets them.")
@common
def command(
    *, job: str, failed: bool, as_csv: bool, wide: bool, pipeline: str | None, as_json: bool, **to: str | None
) -> int:
    """Show the outcome of every finished item: as a table, as JSON lines with --json, as CSV, or into a file. Items of
    a job that still runs, or was stopped, are among them."""
    file, form = to["file"], to["form"]
    if form and not file:
        raise click.UsageError(f"--format is {form!r} and --file is not given; give the file to write.")
    if as_csv + as_json + bool(file) > 1:
        raise click.UsageError("give one of --csv, --json and --file.")
    handle = load_job(pipeline, job)
    show_origins(handle)
    if not (file or as_csv or as_json):
        narrow = not wide and sys.stdout.isatty()
        if not show(handle.results(failed_only=failed, meta=narrow), narrow=narrow):
            click.echo(f"No item of {handle.id} has {'failed' if failed else 'ended'} so far.", err=True)
        elif narrow:
            click.echo(
                f"--wide shows whole URIs and outputs; `tidemill fetch {handle.id}` brings outputs here.", err=True
            )
        return 0
    from tidemill.client.results.export import export, line_with_meta, write_csv

    outcomes = handle.results(failed_only=failed, meta=True)
    if as_json:
        for outcome in outcomes:
            click.echo(line_with_meta(outcome))
        return 0
    if file:
        written = export(outcomes, file, form, handle.meta_keys() if "csv" in (form, Path(file).suffix[1:]) else ())
        click.echo(f"{written.count} outcomes in {file}.", err=True)
    else:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="")
        written = write_csv(outcomes, sys.stdout, handle.meta_keys())
    if written.formulas:
        click.echo(f"{written.formulas} cells {FORMULAS}", err=True)
    return 0


def show(outcomes: Iterator[Outcome], *, narrow: bool) -> bool:
    """Tables of at most a thousand rows, so that results stream. Returns whether there is any row.

    Args:
        outcomes: With their items' metadata where they are shown narrow.
        narrow: Whether items are named below the folder that those of a table are in, without their outputs.
    """
    some = False
    while batch := list(islice(outcomes, ROWS_A_TABLE)):
        uris, ends = [outcome.uri for outcome in batch], [end(outcome) for outcome in batch]
        if narrow:
            from tidemill.client.results.item_names import paths_below

            uris = paths_below([Item(outcome.index, outcome.uri, outcome.meta) for outcome in batch])
        else:
            ends = [said or outcome.output or "" for said, outcome in zip(ends, batch, strict=True)]
        rows = [(*figures(outcome), *more) for outcome, *more in zip(batch, uris, ends, strict=True)]
        show_table(NARROW if narrow else WHOLE, rows)
        some = True
    return some


def end(outcome: Outcome) -> str:
    """An item's error, or its value where it has no files."""
    if outcome.status != "succeeded":
        error = " ".join((outcome.error or "").split())
        return f"{outcome.reason}: {error if len(error) <= SHOWN else '…' + error[-SHOWN:]}"
    if outcome.output is not None or outcome.value is None:
        return ""
    value = json.dumps(outcome.value)
    return value if len(value) <= SHOWN else value[:SHOWN] + "…"


def figures(outcome: Outcome) -> tuple[object, ...]:
    return (
        outcome.index,
        outcome.status,
        outcome.attempts,
        duration(outcome.wall_seconds),
        duration(outcome.cpu_seconds),
        mebibytes(outcome.peak_memory_mib),
    )
