"""`tidemill failures`: failed items by error message."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tidemill.cli.options import common, job_argument, load_job
from tidemill.cli.show import show_json, show_table

if TYPE_CHECKING:
    from tidemill.client import Job
    from tidemill.client.report.failures import FailureGroup

SHOWN = 20
WORST = 3
HEADER = ("items", "group", "reason", "which", "message")
INDICES = 4
REMEDIES = {
    "memory": "memory: `{retry} --memory {memory}M` gives each twice as much (96 MiB are the worker's).",
    "timeout": "timeout: submit another job with a larger --timeout, if the items are not stuck; a retry has the same.",
}
"""Remedies, by the reason of a failure that would come again."""
BEFORE_IT_RAN = ("input", "start")
"""Reasons of items that have printed nothing."""


@click.command()
@job_argument
@click.option("--all", "everything", is_flag=True, help=f"Show every group, not only the {SHOWN} largest.")
@common
def command(job: str, everything: bool, pipeline: str | None, as_json: bool) -> int:
    """Group failed items by error message, the largest group first."""
    from tidemill.client.report.failures import group_failures

    handle = load_job(pipeline, job)
    groups = group_failures(handle.results(failed_only=True))
    failed = sum(group.count for group in groups)
    if as_json:
        show_json({"job": handle.id, "failed": failed, "groups": [asdict(group) for group in groups]})
        return 0
    if not groups:
        click.echo(f"No item of {handle.id} has failed{'' if handle.progress().finished else ' so far'}.")
        return 0
    shown = groups if everything else groups[:SHOWN]
    show_table(HEADER, [row(group) for group in shown])
    if rest := groups[len(shown) :]:
        click.echo(f"and {sum(group.count for group in rest)} items in {len(rest)} more groups: --all shows them.")
    say_what_to_change(handle, shown)
    first, group = groups[0].items[0], groups[0].id
    if groups[0].reason not in BEFORE_IT_RAN:
        click.echo(f"`tidemill logs {handle.id} --item {first}` shows what the first of them printed.", err=True)
    elif "\n" in (groups[0].error or ""):
        click.echo(f"`tidemill results {handle.id} --failed --json` has their whole errors.", err=True)
    if groups[0].reason not in REMEDIES:
        click.echo(f"`tidemill retry {handle.id} --group {group}` runs the items of the first group again.", err=True)
    return 0


def show_worst(job: Job) -> None:
    """Print the largest groups of a job with failed items, after an empty line."""
    from tidemill.client.report.failures import group_failures

    groups = group_failures(job.results(failed_only=True))
    click.echo()
    show_table(HEADER, [row(group) for group in groups[:WORST]])
    if rest := groups[WORST:]:
        click.echo(f"and {sum(group.count for group in rest)} items in {len(rest)} more groups.")
    say_what_to_change(job, groups[:WORST])


def say_what_to_change(job: Job, groups: list[FailureGroup]) -> None:
    largest: dict[str | None, FailureGroup] = {}
    for group in groups:
        largest.setdefault(group.reason, group)
    for group in largest.values():
        if group.reason in REMEDIES:
            memory = 2 * (group.memory_mib or job.spec.resources.memory_mib)
            retry = f"tidemill retry {job.id} --group {group.id}"
            click.echo(REMEDIES[group.reason].format(retry=retry, memory=memory), err=True)


def row(group: FailureGroup) -> tuple[object, ...]:
    which = ", ".join(map(str, group.items[:INDICES])) + (", ..." if group.count > INDICES else "")
    reason = group.reason or "several"
    if reason == "exit" and group.exit_code is not None:
        reason = f"exit {group.exit_code}"
    return group.count, group.id, reason, which, group.message
