"""`tidemill status`: a job's progress."""

from __future__ import annotations

import click

from tidemill.cli.options import common, job_argument, load_job
from tidemill.cli.show import show_facts, show_json, shown_place


@click.command()
@job_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["openmetrics"]),
    help="Print gauges for Prometheus, such as a textfile collector or a Pushgateway takes.",
)
@common
def command(job: str, form: str | None, pipeline: str | None, as_json: bool) -> int:
    """Show a job's progress. Exits with 1 when items have failed."""
    if form and as_json:
        raise click.UsageError("--format and --json exclude each other.")
    handle = load_job(pipeline, job)
    status = handle.status(running=True)
    if form:
        from tidemill.cli.openmetrics import text

        click.echo(text(status, handle.spec.queue))
    elif as_json:
        show_json(status.to_json())
    else:
        show_facts(status.facts() | {"outputs": shown_place(handle.output)})
    return status.exit_code
