"""`pulumi-resource-gcp`."""

from __future__ import annotations

import os
from typing import Any

from localcloud.provider.server import Provider, serve

from . import invokes
from .calls import Calls
from .kind import GCP
from .resources import GcpResource

CONFIG = frozenset(
    {"project", "region", "zone", "defaultLabels", "version", "userProjectOverride", "billingProject"}
    | {"addPulumiAttributionLabel", "disableGlobalProjectWarning", "skipRegionValidation"}
    # Of another login, which localcloud does not have.
    | {"impersonateServiceAccount", "impersonateServiceAccountDelegates", "requestReason", "requestTimeout"}
    | {"accessToken", "credentials", "scopes", "batching", "universeDomain"}
)


def configure(settings: dict[str, Any]) -> Calls:
    """Calls in the configured project and region.

    Raises:
        ValueError: One of them is not set.
    """
    found = {}
    for key, names in (("project", ("GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT")), ("region", ("GOOGLE_REGION",))):
        found[key] = settings.get(key) or next(filter(None, map(os.environ.get, names)), None)
        if not found[key]:
            raise ValueError(f"gcp:{key} is not set: pulumi config set gcp:{key} …")
    return Calls(**found)


PROVIDER = Provider(GCP, "9.37.1", CONFIG, "defaultLabels", Calls.errors, configure, invokes.invoke, GcpResource)


def main() -> None:
    serve(PROVIDER)
