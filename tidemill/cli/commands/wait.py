"""`tidemill wait`: watch a job until it ends."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from tidemill.cli.kinds import Duration
from tidemill.cli.options import common, job_argument, load_job
from tidemill.cli.show import mebibytes, show_facts, show_json, shown_place
from tidemill.client.watch.live import following
from tidemill.figures import counted, duration

if TYPE_CHECKING:
    from tidemill.client import Job, Status, Summary


@click.command()
@job_argument
@click.option(
    "--no-repair", is_flag=True, help="Only name deliveries that the cloud has lost; do not enqueue them again."
)
@click.option(
    "--poll",
    type=Duration(0.1),
    metavar="TIME",
    help="Time between polls. Default: 2s, longer for jobs of many chunks.",
)
@common
def command(job: str, no_repair: bool, poll: float | None, pipeline: str | None, as_json: bool) -> int:
    """Watch a job until it ends, then show its figures. Exits with 1 when items have failed."""
    handle = load_job(pipeline, job)
    with following(handle.id) as on_status:
        report = partial(click.echo, err=True)
        status = handle.wait(repair=not no_repair, poll_seconds=poll, on_status=on_status, log=report)
    summary = handle.summary(status)
    if as_json:
        show_json(status.to_json() | {"summary": summary.to_json()})
    else:
        show_facts(facts(handle, status, summary))
        if status.failed:
            from tidemill.cli.commands.failures import show_worst

            show_worst(handle)
    return status.exit_code


UNMEASURED = "unknown: no item ran for long enough to be measured"


def facts(job: Job, status: Status, summary: Summary, where: str = "") -> dict[str, object]:
    """The table at the end of a job. `where` follows every command in it: ` --pipeline URI` where needed."""
    table: dict[str, object] = {
        "job": status.job,
        "state": status.state_words,
        **status.shared_facts(),
        "succeeded": status.succeeded,
        "failed": status.failed,
    }
    if status.remaining:
        table["not run"] = status.remaining
    if status.note:
        table["note"] = status.note
    table |= {
        "attempts": summary.attempts,
        **({} if status.run_command else {"reclaims": summary.reclaims}),
        "CPU time": duration(summary.cpu_seconds),
        "wall time": duration(summary.wall_seconds),
        "peak memory": mebibytes(summary.peak_memory_mib) if summary.peak_memory_mib else UNMEASURED,
    }
    if status.told:
        table["notify"] = status.told
    if status.spent:
        table["cost"] = status.spent.words()
    if command := status.continued_by(where):
        table["continue"] = command
    fetch = f"`tidemill fetch {status.job}{where}` brings them here"
    if status.shared:
        others = counted(len(status.origins), "earlier job")
        table["outputs"] = f"{shown_place(job.output)} and those of {others}; {fetch}"
    elif summary.outputs:
        table["outputs"] = f"{shown_place(job.output)} ({summary.outputs} of {counted(status.items, 'item')}); {fetch}"
    elif status.succeeded and job.spec.keep_values:
        table["outputs"] = f"no files; `tidemill results {status.job}{where}` shows what the function returned"
    elif status.succeeded:
        table["outputs"] = "none: no item wrote a file to its output folder ({output}, $TIDEMILL_OUTPUT)"
    if status.failed:
        here = " --run" if job.run_command else ""
        again = f"`tidemill retry {status.job} --failed{here}{where}` runs them again"
        table["failures"] = f"tidemill failures {status.job}{where}; {again}"
    return table
