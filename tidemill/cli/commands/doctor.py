"""`tidemill doctor`: check everything that a job needs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tidemill.cli.options import common, pipeline_uri
from tidemill.cli.show import color, show_json
from tidemill.figures import counted

if TYPE_CHECKING:
    from tidemill.clouds.findings import Finding

STYLES = {"ok": "green", "warning": "yellow", "fault": "red", "unknown": "cyan"}
PROBLEM_FOUND = 3


@click.command()
@click.option("--output", metavar="URI", help="Also check whether jobs may write outputs there.")
@common
def command(output: str | None, pipeline: str | None, as_json: bool) -> int:
    """Check login, descriptor, job store, queues, images, quotas and fleet; print a fix for each problem.

    Exits with 3 when there is a problem.
    """
    from tidemill.client.health.doctor import check_pipeline

    findings = []
    for finding in check_pipeline(pipeline_uri(pipeline), output):
        findings.append(finding)
        if not as_json:
            show(finding)
    faults = sum(finding.verdict == "fault" for finding in findings)
    if as_json:
        show_json({"ok": not faults, "checks": [asdict(finding) for finding in findings]})
    else:
        click.echo(f"{counted(faults, 'problem')} found." if faults else "Everything is fine.")
    return PROBLEM_FOUND if faults else 0


def show(finding: Finding) -> None:
    verdict = {"fault": "problem"}.get(finding.verdict, finding.verdict).ljust(8)
    styled = click.style(verdict, fg=STYLES[finding.verdict], bold=finding.verdict == "fault") if color() else verdict
    click.echo(f"{styled} {finding.check}: {' '.join(finding.detail.split())}")
    if finding.command:
        who = "the stack's owner types" if finding.owner else "type"
        click.echo(f"{'':8}   {who}: {finding.command}")
