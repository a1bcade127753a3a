"""Keys of a stack on AWS: those of Pulumi's provider, and the machine families that it may name."""

from typing import Any

from components.config.types import DIRECTIONS

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

FAMILIES = (
    "c5", "c5d", "c6a", "c6g", "c6gd", "c6i", "c6id", "c7a", "c7g", "c7gd", "c7i", "c8g", "c8gd",
    "g4dn", "g5", "g6",
    "i4i",
    "m5", "m5d", "m6a", "m6g", "m6gd", "m6i", "m6id", "m7a", "m7g", "m7gd", "m7i", "m8g", "m8gd",
    "p4d",
    "r5", "r5d", "r6a", "r6g", "r6gd", "r6i", "r6id", "r7a", "r7g", "r7gd", "r7i", "r8g", "r8gd",
)  # fmt: skip
"""Those whose images, disks and GPUs this package knows how to set up."""
