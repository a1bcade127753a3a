"""`tidemill explain`: why a job does not progress."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tidemill.cli.options import common, job_argument, load_job
from tidemill.cli.show import color, show_json
from tidemill.request import with_flags

if TYPE_CHECKING:
    from tidemill.explain import Explanation, Reason

STYLES = {"well": "green", "turn": "cyan", "act": "yellow", "never": "red"}


@click.command()
@job_argument
@common
def command(job: str, pipeline: str | None, as_json: bool) -> int:
    """Say why a job does not progress, and what to do.

    Each cause is of a class. well: it progresses. turn: it waits, and no action is needed. act: someone must act.
    never: as it stands, it cannot run. Exits with 1 for act and never. For a template's name it also says why its
    newest send made no job.
    """
    answer = load_job(pipeline, job, explained=True).explain()
    answer = replace(answer, causes=[replace(cause, do=with_flags(cause.do)) for cause in answer.causes])
    if as_json:
        show_json(answer.to_json())
    else:
        show(answer)
    return answer.exit_code


def show(answer: Explanation) -> None:
    for cause in answer.causes:
        _show_cause(cause)
    for unseen in answer.unknown:
        who = f"; the stack's owner types: {unseen.command}" if unseen.command else ""
        click.echo(f"unknown: may not see {unseen.what}: {unseen.reason}{who}")


def _show_cause(cause: Reason) -> None:
    kind = (
        click.style(cause.kind, fg=STYLES[cause.kind], bold=cause.kind in ("act", "never")) if color() else cause.kind
    )
    click.echo(f"{kind} ({cause.code}): {cause.text}")
    for line in cause.evidence:
        click.echo(f"   {line}")
    if cause.kind in ("act", "never"):
        who = "the stack's owner" if cause.owner else "you"
        click.echo(f"   {who}: {cause.do}")
        click.echo(f"   {cause.docs}")
