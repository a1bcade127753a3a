"""`tidemill cancel`: stop a job."""

from __future__ import annotations

import click

from tidemill.cli.options import common, job_argument, load_job
from tidemill.cli.show import show_json


@click.command()
@job_argument
@common
def command(job: str, pipeline: str | None, as_json: bool) -> int:
    """Stop a job. Finished items are kept; running items are ended, and the others do not run."""
    handle = load_job(pipeline, job)
    ended = handle.cancel()
    cancelled = handle.cancelled
    if as_json:
        show_json({"job": job, "cancelled": cancelled, "arrays_ended": ended})
    elif cancelled:
        click.echo(f"{handle.id} is cancelled. `tidemill resume {handle.id}` runs what is left.")
    else:
        click.echo(f"{handle.id} has already finished; there is nothing to cancel.")
    return 0
