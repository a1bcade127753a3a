"""`tidemill report`: what became of a job, as one HTML file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from tidemill.cli.options import common, job_argument, load_job
from tidemill.cli.show import show_json


@click.command()
@job_argument
@click.option("--output", "-o", metavar="FILE|URI", help="Where the page goes. Default: ./JOB-ID.html.")
@click.option("--redact", is_flag=True, help="Leave out the command, URIs, users and error messages.")
@click.option("--all", "everything", is_flag=True, help="Read every record with failed items, not at most 2,000.")
@click.option("--open", "show", is_flag=True, help="Show the page in a browser.")
@common
def command(
    *,
    job: str,
    output: str | None,
    redact: bool,
    everything: bool,
    show: bool,
    pipeline: str | None,
    as_json: bool,
) -> int:
    """Write what became of a job into one HTML file: time, resources, machines, failures and cost.

    It works while the job runs, too. The page needs no network and runs no script.
    """
    if as_json and (output or show):
        raise click.UsageError("--json prints the report; leave --output and --open out.")
    if show and output and "://" in output:
        raise click.UsageError("--open shows a file of this machine; leave --output out or name a file.")
    handle = load_job(pipeline, job)
    if as_json:
        from tidemill.client.report.page import redacted

        report = handle.report(everything=everything)
        show_json(asdict(redacted(report) if redact else report))
        return 0
    place = handle.write_report(output, redact=redact, everything=everything)
    click.echo(place)
    if show:
        click.launch(Path(place).absolute().as_uri())
    return 0
