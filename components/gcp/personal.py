"""A personal pipeline on GCP: the keys of its stack file, and the home of its state."""

from collections.abc import Mapping
from typing import Any

from .bootstrap import GcpBootstrap, GcpBootstrapArgs

MARKS = {"tidemill-account": "personal"}
MORE: dict[str, Any] = {}
"""More keys of the stack file: none, as the registry takes images of any name."""


def keys(account: str, region: str) -> dict[str, Any]:
    """The provider's settings. A person's login names no project that pays for calls of the Budget API: these do."""
    return {
        "gcp:project": account,
        "gcp:region": region,
        "gcp:userProjectOverride": "true",
        "gcp:billingProject": account,
    }


def home(name: str, *, purge: bool) -> GcpBootstrap:
    """Enable the APIs, which stay enabled, and make the bucket and the key of the state."""
    return GcpBootstrap(name, GcpBootstrapArgs(purge=purge, labels=MARKS))


def place(settings: Mapping[str, Any]) -> tuple[str, str]:
    """The project and the region that a stack file names; empty where it names none."""
    return str(settings.get("gcp:project") or ""), str(settings.get("gcp:region") or "")
