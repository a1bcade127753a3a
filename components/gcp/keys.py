"""Keys of a stack on GCP: those of Pulumi's provider, and which labels GCP takes."""

import re
from typing import Any

from ..config.types import DIRECTIONS

CHECKED: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "gcp:project": (
        r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]",
        "the id of a project, not its name or number",
        ("GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"),
    ),
    "gcp:region": (
        rf"[a-z]+-{DIRECTIONS}\d+",
        "a region, like us-central1, and no zone",
        ("GOOGLE_REGION", "GCLOUD_REGION", "CLOUDSDK_COMPUTE_REGION"),
    ),
}
"""Without them the provider fails at the first resource, with an error about credentials: format, what is allowed, and
the environment variables that the provider accepts instead.
Sources: https://cloud.google.com/resource-manager/docs/creating-managing-projects and
https://www.pulumi.com/registry/packages/gcp/installation-configuration/"""

REGIONS = {
    "africa-south1", "asia-east1", "asia-east2", "asia-northeast1", "asia-northeast2", "asia-northeast3",
    "asia-south1", "asia-south2", "asia-southeast1", "asia-southeast2", "asia-southeast3", "australia-southeast1",
    "australia-southeast2", "europe-central2", "europe-north1", "europe-north2", "europe-southwest1", "europe-west1",
    "europe-west2", "europe-west3", "europe-west4", "europe-west6", "europe-west8", "europe-west9", "europe-west10",
    "europe-west12", "me-central1", "me-central2", "me-west1", "northamerica-northeast1", "northamerica-northeast2",
    "northamerica-south1", "southamerica-east1", "southamerica-west1", "us-central1", "us-east1", "us-east4",
    "us-east5", "us-south1", "us-west1", "us-west2", "us-west3", "us-west4",
}  # fmt: skip
"""Source: the locations in the documents of Google's API client. A region that opens later is one of the price
table first."""

UNAVAILABLE: dict[str, dict[str, str]] = {}
"""Keys whose service is missing in some regions: none."""

PLACES: dict[str, dict[str, str]] = {
    "gcp:project": {
        "type": "string",
        "pattern": f"^{CHECKED['gcp:project'][0]}$",
        "description": "The GCP project; normally one per team.",
    },
    "gcp:region": {
        "type": "string",
        "pattern": f"^{CHECKED['gcp:region'][0]}$",
        "description": "The GCP region.",
    },
}
"""Required in a stack file."""

TAGS: dict[str, dict[str, Any]] = {
    "gcp:defaultLabels": {
        "type": ["object", "string"],
        "propertyNames": {
            "pattern": r"^[a-z][a-z0-9_-]{0,62}$",
            "description": "Keys are lower-case: cost-center.",
        },
        "description": "Your own labels of every resource; keys and values are lower-case.",
    },
}
"""Keys whose mistakes show late: resources without labels. As text they are JSON."""

DEFAULT_TAGS = ("gcp:defaultLabels",)
"""Where a stack file has the tags that the provider adds."""

CREDENTIALS = ("gcp:accessToken", "gcp:credentials")
"""Source: https://www.pulumi.com/registry/packages/gcp/installation-configuration/"""

MOST_TAGS = 50
"""A resource has at most 64; some are Tidemill's or Google's own."""

# Network tags, which firewall rules read, are another thing.
# Source: https://cloud.google.com/resource-manager/docs/labels-overview#requirements
_TAG_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_TAG_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
# A hump of `CostCenter`, but not each letter of `IDs`.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OTHER = re.compile(r"[^a-z0-9_-]+")


def wrong_tag_key(key: str) -> tuple[str, str] | None:
    """The keys that are allowed instead of this one, and what to do; None if GCP takes it."""
    if key.startswith("goog"):
        return "keys that do not begin with goog, which Google keeps for itself", "Rename it"
    if _TAG_KEY.fullmatch(key):
        return None
    allowed = "keys of 1 to 63 lower-case letters, digits, _ and -, beginning with a letter"
    spelled = _spelled(key)
    return allowed, f"On GCP spell it {spelled}" if _TAG_KEY.fullmatch(spelled) else "Rename it"


def wrong_tag_value(value: str) -> tuple[str, str] | None:
    """The same of a value, which may be empty."""
    if _TAG_VALUE.fullmatch(value):
        return None
    spelled = _spelled(value)
    fix = f"On GCP spell it {spelled}" if spelled and _TAG_VALUE.fullmatch(spelled) else "Change it"
    return "values of at most 63 lower-case letters, digits, _ and -", fix


def _spelled(text: str) -> str:
    """A text of AWS's in the alphabet of labels: `CostCenter` is `cost-center`."""
    return _OTHER.sub("-", _HUMP.sub("-", text).lower()).strip("-_")
