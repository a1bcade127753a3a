"""`tidemill cancel`: stop a job."""

from __future__ import annotations

import click

from tidemill.cli.options import common, job_argument, load_job
from tidemill.cli.show import show_json


@click.command()
@job_argument
@click.option("--drain", is_flag=True, help="Also take out of the queue what no machine is there to take out.")
@common
def command(job: str, drain: bool, pipeline: str | None, as_json: bool) -> int:
    """Stop a job. What is finished stays finished; items that run are ended, the rest is not run."""
    handle = load_job(pipeline, job)
    if drain:
        click.echo("--drain: AWS Batch ends what is queued by itself; there is nothing left to take out.", err=True)
    ended = handle.cancel()
    cancelled = handle.cancelled
    if as_json:
        show_json({"job": job, "cancelled": cancelled, "arrays_ended": ended})
    elif cancelled:
        click.echo(f"{job} is cancelled; {ended} array{'' if ended == 1 else 's'} ended.")
    else:
        click.echo(f"{job} had finished; there is nothing to cancel.")
    return 0
