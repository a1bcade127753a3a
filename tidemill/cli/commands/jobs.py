"""`tidemill jobs`: the newest jobs of the store."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tidemill.cli.job_options import pairs
from tidemill.cli.kinds import Moment
from tidemill.cli.known_jobs import note_jobs
from tidemill.cli.options import common, load, pipeline_uri
from tidemill.cli.show import show_json, show_table

if TYPE_CHECKING:
    from tidemill.client import JobRow

HEADER = ("job", "state", "items", "succeeded", "failed", "queue", "user", "submitted (UTC)")


@click.command()
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many, the newest first.")
@click.option("--user", help="Only jobs that this person sent.")
@click.option("--state", multiple=True, help="Only jobs in this state, such as failed. Repeatable: one holds.")
@click.option("--queue", help="Only jobs of this queue.")
@click.option(
    "--tag", "tags", metavar="KEY=VALUE", multiple=True, help="Only jobs with this tag. Repeatable: all hold."
)
@click.option("--name", metavar="PATTERN", help="Only jobs of this name, or of names such as 'nightly-*'.")
@click.option("--since", type=Moment(), metavar="TIME", help="Only jobs sent since TIME: 2h, 3d or 2026-11-21T09:30.")
@click.option("--until", type=Moment(), metavar="TIME", help="Only jobs sent until TIME.")
@common
def command(*, pipeline: str | None, as_json: bool, **wanted: Any) -> int:
    """List the newest jobs with their states. `tidemill status JOB` says more of one."""
    wanted["tags"] = pairs("tags", wanted["tags"])
    rows = load(pipeline).jobs(log=partial(click.echo, err=True), **wanted)
    note_jobs(pipeline_uri(pipeline), [row.job for row in rows])
    if as_json:
        show_json({"jobs": [asdict(row) for row in rows]})
        return 0
    if not rows:
        click.echo("No job fits." if any(wanted[key] for key in wanted.keys() - {"limit"}) else "No job yet.", err=True)
    # 80 columns have no room for the year, and a date that is cut is none.
    year = f"{datetime.now(UTC):%Y-}" if sys.stdout.isatty() else ""
    header = (*HEADER[:-1], "sent (UTC)") if year else HEADER
    show_table(header, [cells(row, year) for row in rows])
    if len(rows) == wanted["limit"] and sys.stderr.isatty():
        click.echo(f"Older ones: --until {rows[-1].created_at}", err=True)
    return 0


def cells(row: JobRow, year: str = "") -> tuple[object, ...]:
    """A job's row. Its time leaves out the year that is given."""
    submitted = row.created_at[:16].replace("T", " ").removeprefix(year)
    who = row.sent_by if row.sent_by not in (None, "hand") else row.user
    return row.job, row.state_words, row.items, row.succeeded, row.failed, row.queue, who, submitted
