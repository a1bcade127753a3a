"""Keys of a stack on AWS: those of Pulumi's provider."""

from typing import Any

from ..config.types import DIRECTIONS

PLACES: dict[str, dict[str, str]] = {
    "aws:region": {
        "type": "string",
        "pattern": rf"^[a-z]{{2,4}}(-[a-z]+)?-{DIRECTIONS}-\d$",
        "description": "The AWS region.",
    },
}
"""Required in a stack file."""

CHECKED: dict[str, tuple[str, str, tuple[str, ...]]] = {}
"""Without a region the provider fails by itself, and says so."""

TAGS: dict[str, dict[str, Any]] = {
    "aws:allowedAccountIds": {
        "type": ["array", "string"],
        "items": {"pattern": r"^\d{12}$"},
        "description": "The stack's account, as a list of one id: the provider and CI refuse a login to another one.",
    },
    "aws:assumeRoles": {
        "type": ["array", "string"],
        "description": "Roles to assume one after the other, as a list: [{roleArn: …}].",
    },
    "aws:defaultTags": {
        "type": ["object", "string"],
        "properties": {"tags": {"type": "object"}},
        "additionalProperties": False,
        "description": "Your own tags of every resource, under tags: {tags: {CostCenter: '4711'}}.",
    },
}
"""Keys whose mistakes show late: a list that is none, resources without tags. As text they are JSON.
Source: https://www.pulumi.com/registry/packages/aws/installation-configuration/"""

CREDENTIALS = ("aws:secretKey", "aws:token")
"""Source: as above."""
