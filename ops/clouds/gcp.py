"""Facts about GCP that the platform team's commands need."""

import re
from collections.abc import Mapping
from typing import Any

from components.config import Queue, StackConfig

CLIENT = ("google.", "googleapiclient", "pulumi_gcp")
REGION = "us-central1"
"""Of a new stack."""
BACKEND = "gs://"
"""How the URL of a backend on this cloud begins."""

SETTINGS = (
    "accessToken", "addPulumiAttributionLabel", "batching", "billingProject", "credentials", "defaultLabels",
    "deletionPolicy", "disableGlobalProjectWarning", "disableGooglePartnerName", "externalCredentials",
    "googlePartnerName", "impersonateServiceAccount", "impersonateServiceAccountDelegates", "pollInterval",
    "preferGlobalEndpoints", "preferRegionalEndpoints", "project", "pulumiAttributionLabelAdditionStrategy",
    "region", "requestReason", "requestTimeout", "scopes", "skipRegionValidation", "universeDomain",
    "userProjectOverride", "zone",
)  # fmt: skip
"""Of the provider, which a stack file may have as `gcp:NAME`."""
SETTINGS_END = ("CustomEndpoint",)
"""Endings of more such names: each service has an endpoint."""
ELSEWHERE = (
    "credentials", "externalCredentials", "impersonateServiceAccount", "impersonateServiceAccountDelegates", "project",
    "universeDomain",
)  # fmt: skip
"""Settings that decide as whom, and in which project, a stack is made."""
TAG_RULE = "gcp-any-resource-labels"
HOLDERS = ("member", "members")
"""Inputs that name who gets permissions."""
ADMITS = ("attributeCondition", "attributeMapping", "aws", "oidc", "saml")
"""Inputs of a workload identity provider that decide whose tokens it admits."""
NAMES_ARE_PATTERNS = False
REPOSITORY_PER_IMAGE = False

PRICE_PARTS = ("on_demand", "spot", "services")

REMOVED_WITH = ("purge", "its topics, subscriptions and instance groups are")
"""The value of `allow` that lets a queue go, and what it protects otherwise."""

WANTED_TYPES = 3
"""Types that a Spot queue should be able to choose from: it has one a family."""
WANTED_WHEN_SCARCE = 5
WANTED_BY = "Compute Engine can choose well among"
CHEAPEST_FIRST = True
"""A group prefers the families that come first."""
RECLAIMS_COUNT = False
ZONES_MAY_CHANGE = False
"""A change of zones replaces the group."""
SIZES_MAY_WIDEN = False


def network_zones(config: StackConfig) -> int | None:
    """The zones of a network that the stack makes: all of the region's, which no config tells."""
    return None


def in_one_zone(queue: Queue) -> bool:
    return False


def wrong_home(identity: str, settings: Mapping[str, Any]) -> str | None:
    """The project of a service account, if a stack file names another one; None if it is admitted or unknown.

    Args:
        identity: The account's address.
    """
    account = re.fullmatch(r"[^@]+@([a-z0-9-]+)\.iam\.gserviceaccount\.com", identity)
    project = settings.get("gcp:project")
    if not account or not project or settings.get("gcp:impersonateServiceAccount") or account[1] == project:
        return None
    return f"the project {account[1]}; gcp:project: {project}"
