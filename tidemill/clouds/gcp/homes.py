"""The home of a personal pipeline in a Google Cloud project."""

from __future__ import annotations

import os

from tidemill.clouds.emulated import emulated
from tidemill.clouds.gcp.login import check_login
from tidemill.clouds.gcp.session import GoogleSession
from tidemill.clouds.homes import FoundHome, home_name, only_bucket
from tidemill.errors import CallerError, CloudError

_PROJECT = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")
_REGION = ("GOOGLE_REGION", "GCLOUD_REGION", "CLOUDSDK_COMPUTE_REGION")

BILLING_ACCOUNTS = "gcloud billing accounts list"
"""Command that lists the accounts that pay for projects: a budget belongs to one."""


def log_in(account: str, region: str) -> tuple[str, str]:
    """The project and the region.

    Args:
        account: The project that the caller names, or empty for that of their environment.
        region: The same of the region.

    Raises:
        CloudError: There is no valid login.
        CallerError: No project or no region is named.
    """
    finding, _ = check_login()
    if finding.verdict != "ok":
        raise CloudError(finding.detail, command=finding.command)
    project, place = account or _of(_PROJECT), region or _of(_REGION)
    if not project:
        raise CallerError("No project is named.", "Give --project, the id of your project.", what="--project")
    if not place:
        raise CallerError("No region is named.", "Give --region, such as us-central1.", what="--region")
    return project, place


def _of(variables: tuple[str, ...]) -> str:
    return next(filter(None, map(os.environ.get, variables)), "") or ""


def find_home(team: str, account: str) -> FoundHome | None:
    """The home of a person's pipeline, in any region; None where there is none."""
    params = {"project": account, "prefix": home_name(team), "maxResults": "1000"}
    found = GoogleSession(account).call("storage", "GET", "storage/v1/b", action="storage.buckets.list", params=params)
    buckets = {each["name"]: each for each in found.get("items", [])}
    name = only_bucket(team, buckets)
    if name is None:
        return None
    bucket = buckets[name]
    key = bucket.get("encryption", {}).get("defaultKmsKeyName", "")
    # The engine's client of Cloud KMS reaches none but Google's own.
    provider = "passphrase" if emulated() else f"gcpkms://{key}"
    return FoundHome(name, bucket["location"].lower(), f"gs://{name}", key and provider)


def prepare(region: str) -> None:
    """Do nothing: the home's stack enables the project's APIs."""
