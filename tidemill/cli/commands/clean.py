"""`tidemill clean`: remove old jobs, and what no job uses."""

from __future__ import annotations

import click

from tidemill.cli.kinds import Duration
from tidemill.cli.options import common
from tidemill.cli.removals import dry_run, remove, yes


@click.command()
@click.option(
    # A bare number would be seconds, where somebody may mean days.
    "--older-than",
    type=Duration(unit=True),
    metavar="TIME",
    help="Jobs in which nothing was written for so long: 30d.",
)
@yes
@dry_run
@common
def command(*, older_than: float | None, yes: bool, dry_run: bool, pipeline: str | None, as_json: bool) -> int:
    """Remove what no job uses and, with --older-than, old jobs, after a listing and a question.

    Jobs that have not ended, or that a newer job uses, stay. On this machine it also finds uploads that no job uses,
    unpacked code, and submits that died.
    """
    return remove(pipeline, lambda here: here.cleanup(older_than), yes=yes, dry_run=dry_run, as_json=as_json)
