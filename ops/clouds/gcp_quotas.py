"""The quotas of a project on GCP, for `python -m ops quotas`."""

import os
from collections.abc import Mapping
from typing import Any

import click
import google.auth
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from requests import RequestException

from components.config import StackConfig
from components.gcp.quotas import QuotaShortage, needed, shortfalls

KEYS = ("gcp:project", "gcp:region")
_READ = "https://www.googleapis.com/auth/compute.readonly"
_TIMEOUT_SECONDS = 30


def place(settings: Mapping[str, Any]) -> str:
    return f"{settings['gcp:project']} in {settings['gcp:region']}"


def request(settings: Mapping[str, Any]) -> str:
    return f"https://console.cloud.google.com/iam-admin/quotas?project={settings['gcp:project']}"


def short(settings: Mapping[str, Any], config: StackConfig) -> list[QuotaShortage]:
    """The quotas of the stack's region that are too small.

    Raises:
        click.ClickException: Google does not answer, or the login may not ask.
    """
    return shortfalls(needed(config), _region(settings["gcp:project"], settings["gcp:region"]))


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
