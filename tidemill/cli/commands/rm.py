"""`tidemill rm`: remove jobs."""

from __future__ import annotations

import click

from tidemill.cli.options import common, complete_job
from tidemill.cli.removals import dry_run, remove, yes


@click.command()
@click.argument("jobs", nargs=-1, required=True, metavar="JOB...", shell_complete=complete_job)
@yes
@dry_run
@common
def command(*, jobs: tuple[str, ...], yes: bool, dry_run: bool, pipeline: str | None, as_json: bool) -> int:
    """Remove jobs with their specs, records, outputs, state and logs, after a listing and a question.

    A job that has not ended, or that another job uses, is refused. Uploads stay, and so does what you have fetched.
    After an interrupt, the same command finishes. In a cloud only the stack's owner may remove jobs.
    """
    return remove(pipeline, lambda here: here.removal(*jobs), yes=yes, dry_run=dry_run, as_json=as_json)
