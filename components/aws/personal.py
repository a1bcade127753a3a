"""A personal pipeline on AWS: the keys of its stack file, and the home of its state."""

from collections.abc import Mapping
from typing import Any

from .bootstrap import AwsBootstrap, AwsBootstrapArgs

MARKS = {"tidemill:account": "personal"}
MORE: dict[str, Any] = {"tidemill:registry": {"repositories": ["tidemill-worker"]}}
"""More keys of the stack file: a repository for the worker's image, as a push on AWS makes none."""


def keys(account: str, region: str) -> dict[str, Any]:
    """The provider's settings. It refuses a login to another account by itself."""
    return {"aws:region": region, "aws:allowedAccountIds": [account]}


def home(name: str, *, purge: bool) -> AwsBootstrap:
    """Make the bucket and the key of the state. The service-linked roles are the account's, and outlive it."""
    return AwsBootstrap(name, AwsBootstrapArgs(service_linked_roles=[], purge=purge, tags=MARKS))


def place(settings: Mapping[str, Any]) -> tuple[str, str]:
    """The account and the region that a stack file names; empty where it names none."""
    accounts = settings.get("aws:allowedAccountIds") or [""]
    return str(accounts[0]), str(settings.get("aws:region") or "")
