"""`tidemill jobs`: the newest jobs of the store."""

from __future__ import annotations

from dataclasses import asdict

import click

from tidemill.cli.options import common, load
from tidemill.cli.show import show_json, show_table

HEADER = ("job", "state", "items", "succeeded", "failed", "remaining", "queue", "user", "submitted")


@click.command()
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many, the newest first.")
@common
def command(limit: int, pipeline: str | None, as_json: bool) -> int:
    """The newest jobs, from the store alone. Of an `open` one not everything is done; `tidemill status` says more."""
    rows = load(pipeline).jobs(limit)
    if as_json:
        show_json({"jobs": [asdict(row) for row in rows]})
        return 0
    show_table(
        HEADER,
        [(r.job, r.state, r.items, r.succeeded, r.failed, r.remaining, r.queue, r.user, r.created_at) for r in rows],
    )
    return 0
