"""`tidemill templates`: the submits that are kept."""

from __future__ import annotations

from dataclasses import asdict

import click

from tidemill.cli.options import common, load
from tidemill.cli.show import show_json, show_table


@click.command()
@common
def command(*, pipeline: str | None, as_json: bool) -> int:
    """List the templates of the pipeline, what sends them, and what became of the last send."""
    rows = load(pipeline).templates.list()
    if as_json:
        show_json({"templates": [asdict(row) for row in rows]})
        return 0
    cells = [
        (
            f"{row.name}@{row.version}" if row.version else f"{row.name} (not saved)",
            row.queue or "",
            ", ".join(row.sent_by) or "hand",
            row.paused or (f"{row.last.outcome} {row.last.time_words}" if row.last else "never sent"),
            row.saved_by,
        )
        for row in rows
    ]
    show_table(("template", "queue", "sent by", "last", "saved by"), cells)
    return 0
