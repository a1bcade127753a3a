"""The parts that `rm` and `clean` share: the listing, the question and the removal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from tidemill.cli.known_jobs import note_jobs
from tidemill.cli.options import load, pipeline_uri
from tidemill.cli.show import show_json, show_table

if TYPE_CHECKING:
    from tidemill.client.housekeeping import Housekeeping
    from tidemill.client.housekeeping.removal import Removal

HEADER = ("job", "state", "items", "objects", "size", "last written (UTC)", "stays because")

yes = click.option("--yes", "-y", is_flag=True, help="Remove without a question, as in scripts.")
dry_run = click.option("--dry-run", is_flag=True, help="Only list what would go, and remove nothing.")


def remove(
    pipeline: str | None, plan: Callable[[Housekeeping], Removal], *, yes: bool, dry_run: bool, as_json: bool
) -> int:
    """Plan a removal, show it, ask, and carry it out; returns the exit code.

    Raises:
        UsageError: There is no terminal to ask on.
    """
    removal = plan(load(pipeline).housekeeping)
    parts = [*removal.removed, *removal.leftovers]
    if not as_json:
        show(removal)
    wanted = bool(parts) and not dry_run
    if wanted and not yes:
        if as_json or not on_terminal():
            raise click.UsageError("there is no terminal to ask on: give --yes, or --dry-run.")
        wanted = click.confirm("Remove this?", err=True)
    if wanted:
        removal.carry_out(lambda what: None if as_json else click.echo(f"removed {what}"))
        note_jobs(pipeline_uri(pipeline), (), gone=[job.job for job in removal.removed])
    if as_json:
        show_json(document(removal, removed=wanted))
    return 0


def on_terminal() -> bool:
    """True if someone can answer."""
    return sys.stdin.isatty()


def document(removal: Removal, *, removed: bool) -> dict[str, object]:
    """The removal as JSON: see `RemovalDocument`."""
    from dataclasses import asdict

    jobs, unused = ([asdict(each) for each in rows] for rows in (removal.jobs, removal.leftovers))
    return {"jobs": jobs, "leftovers": unused, "bytes": removal.bytes, "removed": removed}


def show(removal: Removal) -> None:
    """Print what goes and what stays."""
    from tidemill.figures import counted, file_size

    if removal.jobs:
        kept = any(job.kept for job in removal.jobs)
        rows = [
            (
                j.job,
                j.state,
                j.items,
                j.objects,
                file_size(j.bytes),
                (j.written or "")[:16].replace("T", " "),
                j.kept or "",
            )
            for j in removal.jobs
        ]
        show_table(HEADER if kept else HEADER[:-1], rows if kept else [row[:-1] for row in rows])
    for job in removal.removed:
        if job.elsewhere:
            click.echo(f"The outputs of {job.job} stay in {job.elsewhere}.", err=True)
    for each in removal.leftovers:
        click.echo(f"{each.what}: {counted(each.objects, 'file')}, {file_size(each.bytes)}, in {each.place}")
    jobs = f"{counted(len(removal.removed), 'job')}, " if removal.removed else ""
    click.echo(f"{jobs}{file_size(removal.bytes)} in all" if removal.bytes or removal.removed else "Nothing to remove.")
