"""Keys of a stack on GCP: those of Pulumi's provider."""

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
        "propertyNames": {"pattern": r"^[a-z][a-z0-9_-]{0,62}$"},
        "description": "Your own labels of every resource; keys and values are lower-case.",
    },
}
"""Keys whose mistakes show late: resources without labels. As text they are JSON."""

CREDENTIALS = ("gcp:accessToken", "gcp:credentials")
"""Source: https://www.pulumi.com/registry/packages/gcp/installation-configuration/"""
