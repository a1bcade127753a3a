"""`tidemill status`: a job's progress."""

from __future__ import annotations

import click

from tidemill.cli.options import common, job_argument, load_job
from tidemill.cli.show import show_facts, show_json, shown_place


@click.command()
@job_argument
@common
def command(job: str, pipeline: str | None, as_json: bool) -> int:
    """Show a job's progress. Exits with 1 when items have failed."""
    handle = load_job(pipeline, job)
    status = handle.status(running=True)
    if as_json:
        show_json(status.to_json())
    else:
        show_facts(status.facts() | {"outputs": shown_place(handle.output)})
    return status.exit_code
