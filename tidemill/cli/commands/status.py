"""`tidemill status`: a job's progress."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tidemill.cli.options import common, job_argument, load_job
from tidemill.cli.show import show_facts, show_json, shown_place
from tidemill.errors import CallerError

if TYPE_CHECKING:
    from tidemill.client import Job


@click.command()
@job_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["openmetrics"]),
    help="Print gauges for Prometheus, such as a textfile collector or a Pushgateway takes.",
)
@click.option("--links", is_flag=True, help="Print the job's addresses in the cloud's console instead.")
@common
def command(job: str, form: str | None, links: bool, pipeline: str | None, as_json: bool) -> int:
    """Show a job's progress. Exits with 1 when items have failed."""
    if form and (as_json or links):
        raise click.UsageError(f"--format and {'--json' if as_json else '--links'} exclude each other.")
    handle = load_job(pipeline, job)
    if links:
        return _show_links(handle, as_json)
    status = handle.status(running=True)
    if form:
        from tidemill.cli.openmetrics import text

        click.echo(text(status, handle.spec.queue))
    elif as_json:
        show_json(status.to_json())
    else:
        sent_by = {"sent by": handle.spec.sent_by.words()} if handle.spec.sent_by else {}
        show_facts(status.facts() | sent_by | {"outputs": shown_place(handle.output)})
    return status.exit_code


def _show_links(job: Job, as_json: bool) -> int:
    from tidemill.clouds.emulated import emulated

    links = None if emulated() else job.links()
    if links is None:
        raise CallerError(f"{job.id} runs on this machine: no console shows it.", command=f"tidemill status {job.id}")
    table = asdict(links)
    if as_json:
        show_json(table)
    else:
        show_facts({name: address or "-" for name, address in table.items()})
    return 0
