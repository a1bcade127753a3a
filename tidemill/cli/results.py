"""`tidemill results`: the outcome of every finished item."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import click

from tidemill.cli.options import common, job_argument, load_job
from tidemill.cli.show import mebibytes, show_table
from tidemill.figures import duration

if TYPE_CHECKING:
    from tidemill.ledger import Outcome

HEADER = ("item", "status", "attempts", "wall", "CPU", "memory", "uri", "output or error")
ROWS_A_TABLE = 1000
SHOWN = 120
"""Characters shown of the end of an error."""


@click.command()
@job_argument
@click.option("--failed", is_flag=True, help="Only items that failed.")
@click.option(
    "--file",
    metavar="FILE",
    help="Write the outcomes to a file: .jsonl, or .parquet (needs pip install 'tidemill[parquet]').",
)
@click.option(
    "--format", "form", type=click.Choice(["jsonl", "parquet"]), help="The file's format. Default: its ending."
)
@common
def command(*, job: str, failed: bool, file: str | None, form: str | None, pipeline: str | None, as_json: bool) -> int:
    """Show the outcome of every finished item: as a table, as JSON lines with --json, or into a file."""
    if form and not file:
        raise click.UsageError(f"--format is {form!r} and --file is not given; give the file to write.")
    outcomes = load_job(pipeline, job).results(failed_only=failed)
    if file:
        from tidemill.client.export import export

        click.echo(f"{export(outcomes, file, form)} outcomes in {file}.", err=True)
    elif as_json:
        for outcome in outcomes:
            click.echo(outcome.line())
    else:
        show(outcomes)
    return 0


def show(outcomes: Iterator[Outcome]) -> None:
    """Tables of at most a thousand rows, so that results stream."""
    while rows := [row(outcome) for outcome in islice(outcomes, ROWS_A_TABLE)]:
        show_table(HEADER, rows)


def row(outcome: Outcome) -> tuple[object, ...]:
    error = " ".join((outcome.error or "").split())
    said = (
        outcome.output
        if outcome.status == "succeeded"
        else f"{outcome.reason}: {error if len(error) <= SHOWN else '…' + error[-SHOWN:]}"
    )
    return (
        outcome.index,
        outcome.status,
        outcome.attempts,
        duration(outcome.wall_seconds),
        duration(outcome.cpu_seconds),
        mebibytes(outcome.peak_memory_mib),
        outcome.uri,
        said or "",
    )
