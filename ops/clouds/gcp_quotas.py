"""`python -m ops quotas`: whether a project's quotas are enough for a stack's queues."""

import os
import sys
from typing import Any

import click
import google.auth
import yaml
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from requests import RequestException

from components.gcp.quotas import needed, shortfalls
from ops.project import read_config, stack_file

_READ = "https://www.googleapis.com/auth/compute.readonly"
_REQUEST = "https://console.cloud.google.com/iam-admin/quotas"
_TIMEOUT_SECONDS = 30


@click.command()
@click.option("--stack", required=True, help="A stack of stacks/ that is on GCP.")
def quotas(stack: str) -> None:
    """Compare a project's quotas with the most that a stack's queues may start.

    Reads the region with your login (`gcloud auth application-default login`). Exits 1 if a quota is too small or could
    not be read, 2 if an argument or the stack file is wrong.
    """
    path, config = stack_file(stack), read_config(stack)
    if config.cloud != "gcp":
        raise click.UsageError(f"--stack {stack}: it is on {config.cloud}; `tidemill doctor` checks its quota.")
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))["config"]
    project, region = settings.get("gcp:project"), settings.get("gcp:region")
    if not project or not region:
        raise click.UsageError(f"{path.name} must set gcp:project and gcp:region.")
    short = shortfalls(needed(config), _region(project, region))
    for quota in short:
        click.echo(str(quota))
    if short:
        click.echo(f"Ask for more in {region}: {_REQUEST}?project={project}, or lower max_cpus.")
        sys.exit(1)
    click.echo(f"The quotas of {project} in {region} are enough.")


def _region(project: str, region: str) -> dict[str, Any]:
    base = os.environ.get("CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE") or "https://compute.googleapis.com/"
    try:
        credentials, _ = google.auth.default(scopes=[_READ])
        session = AuthorizedSession(credentials)
        answer = session.get(f"{base}compute/v1/projects/{project}/regions/{region}", timeout=_TIMEOUT_SECONDS)
    except (GoogleAuthError, RequestException) as error:
        raise click.ClickException(f"the quotas could not be read: {error}") from None
    if answer.status_code != 200:
        raise click.ClickException(f"the quotas could not be read: {answer.status_code} {answer.text[:300]}")
    return answer.json()
