"""`tidemill retry`: run finished items again, and dead letters."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import click

from tidemill.cli.commands.resume import sentence
from tidemill.cli.options import common, job_argument, load_job, max_usd
from tidemill.cli.show import show_json


@click.command()
@job_argument
@click.option("--failed", is_flag=True, help="Every item that failed.")
@click.option("--group", metavar="ID", help="Every item of a group that `tidemill failures` shows.")
@click.option("--items", metavar="INDEXES", help="Items by their indexes: 7, or 0-9,12,40-41.")
@click.option("--dead", is_flag=True, help="Dead letters: chunks that reached the delivery limit (GCP).")
@click.option("--code", metavar="DIR|GIT", help="Code for this and later rounds; see `tidemill submit --help`.")
@click.option("--lib", "libs", multiple=True, metavar="DIR", help="Folder to add to the code, under its own name.")
@max_usd
@common
def command(
    *,
    job: str,
    failed: bool,
    group: str | None,
    items: str | None,
    dead: bool,
    code: str | None,
    libs: tuple[str, ...],
    max_usd: float | None,
    pipeline: str | None,
    as_json: bool,
) -> int:
    """Run finished items again; the new outcomes replace the old ones. Give --failed, --group, --items or
    --dead."""
    if failed + (group is not None) + (items is not None) + dead != 1:
        raise click.UsageError("give one of --failed, --group, --items and --dead.")
    changes = {"--code": code, "--lib": libs or None, "--max-usd": max_usd}
    if dead and (given := [option for option, value in changes.items() if value is not None]):
        raise click.UsageError(
            f"{given[0]} goes with --failed, --group or --items: dead letters run as they were sent."
        )
    handle = load_job(pipeline, job)
    if dead:
        sent = handle.retry_dead()
    else:
        some = None if items is None else indexes(items, handle.spec.items_total)
        log = partial(click.echo, err=True)
        sent = handle.retry(some, code=code, max_usd=max_usd, group=group, libs=libs, log=log)
    if as_json:
        show_json(asdict(sent))
    else:
        click.echo(sentence(sent))
    return 0


def indexes(text: str, total: int) -> list[int]:
    """`0-2,7` as `[0, 1, 2, 7]`."""
    items: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isdecimal() and (last.isdecimal() if dash else not last)) or int(last or first) < int(first):
            raise click.UsageError(f"--items is {text!r}; allowed: indexes and ranges, such as 0-9,12.")
        if int(last or first) >= total:
            raise click.UsageError(f"--items is {text!r}; the job has the items 0 to {total - 1}.")
        items.extend(range(int(first), int(last or first) + 1))
    return items
