"""`tidemill resume`: enqueue again what the cloud will not deliver any more."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tidemill.cli.options import common, job_argument, load_job, max_usd
from tidemill.cli.show import show_json
from tidemill.figures import counted

if TYPE_CHECKING:
    from tidemill.client.rounds.rounds import RoundResult


@click.command()
@job_argument
@max_usd
@common
def command(job: str, max_usd: float | None, pipeline: str | None, as_json: bool) -> int:
    """Continue a job: enqueue what the cloud has lost, an interrupted submit left out, or a cancel stopped."""
    sent = load_job(pipeline, job).resume(max_usd)
    if as_json:
        show_json(asdict(sent))
    else:
        click.echo(sentence(sent))
    return 0


def sentence(sent: RoundResult) -> str:
    """A sentence on what was enqueued, and the next command."""
    then = f"`{sent.run_command}` runs it." if sent.run_command else f"`tidemill wait {sent.job}` watches it."
    needed = sent.round is not None or (sent.run_command and sent.note)
    return f"{enqueued(sent)} {then}" if needed else enqueued(sent)


def enqueued(sent: RoundResult) -> str:
    """`tiles-a17f8d72: 3 items in 1 chunk enqueued as round 1.`"""
    note = f" ({sent.note})" if sent.note else ""
    if sent.round is None:
        return f"{sent.job}: nothing to enqueue{note}."
    what = f"{counted(sent.items, 'item')} in {counted(sent.chunks, 'chunk')}"
    return f"{sent.job}: {what} enqueued as round {sent.round}{note}."
