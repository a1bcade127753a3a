"""Keys of a stack on AWS: those of Pulumi's provider, and which tags AWS takes."""

import re
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

REGIONS = {
    "af-south-1", "ap-east-1", "ap-east-2", "ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1",
    "ap-south-2", "ap-southeast-1", "ap-southeast-2", "ap-southeast-3", "ap-southeast-4", "ap-southeast-5",
    "ap-southeast-6", "ap-southeast-7", "ca-central-1", "ca-west-1", "eu-central-1", "eu-central-2", "eu-north-1",
    "eu-south-1", "eu-south-2", "eu-west-1", "eu-west-2", "eu-west-3", "il-central-1", "me-central-1", "me-south-1",
    "mx-central-1", "sa-east-1", "us-east-1", "us-east-2", "us-west-1", "us-west-2", "cn-north-1", "cn-northwest-1",
    "us-gov-east-1", "us-gov-west-1", "eusc-de-east-1", "us-iso-east-1", "us-iso-west-1", "us-isob-east-1",
    "us-isob-west-1", "eu-isoe-west-1", "us-isof-east-1", "us-isof-south-1",
}  # fmt: skip
"""Source: `Region` of pulumi-aws. A region that opens later is one of the price table first."""

UNAVAILABLE: dict[str, dict[str, str]] = {
    "us-gov-": {"budget": "Set it in the standard account that pays for the GovCloud account"},
}
"""Keys whose service is missing in regions whose names begin so, and what to do.
Source: https://docs.aws.amazon.com/govcloud-us/latest/UserGuide/govcloud-differences.html"""

_ROLE = (
    *("duration", "externalId", "policy", "policyArns", "roleArn", "sessionName", "sourceIdentity", "tags"),
    "transitiveTagKeys",
)
"""The keys of a role to assume."""

TAGS: dict[str, dict[str, Any]] = {
    "aws:allowedAccountIds": {
        "type": ["array", "string"],
        "items": {"pattern": r"^\d{12}$", "description": "An account's id has 12 digits, and quotes around them."},
        "description": "The stack's account, as a list of one id: the provider and CI refuse a login to another one.",
    },
    "aws:assumeRoles": {
        "type": ["array", "string"],
        "items": {
            "type": "object",
            "properties": {key: {} for key in _ROLE},
            "additionalProperties": False,
        },
        "description": "Roles to assume one after the other, as a list: [{roleArn: …}].",
    },
    "aws:ignoreTags": {
        "type": ["object", "string"],
        "properties": {"keyPrefixes": {"type": "array"}, "keys": {"type": "array"}},
        "additionalProperties": False,
        "description": "Tags that the provider leaves alone: {keyPrefixes: ['corp:'], keys: [owner]}.",
    },
    "aws:defaultTags": {
        "type": ["object", "string"],
        "properties": {"tags": {"type": "object"}},
        "additionalProperties": False,
        "description": "Your own tags of every resource, under tags: {tags: {CostCenter: '4711'}}.",
    },
}
"""Keys whose mistakes show late: a list that is not one, resources without tags. As text they are JSON.
Source: https://www.pulumi.com/registry/packages/aws/installation-configuration/"""

DEFAULT_TAGS = ("aws:defaultTags", "tags")
"""Where a stack file has the tags that the provider adds."""

CREDENTIALS = ("aws:secretKey", "aws:token")
"""Source: as above."""

MOST_TAGS = 20
"""A resource has at most 50. A job has those of its definition too, and fails with more: the rest is for a job's own
(`MAX_TAGS` in tidemill/client/plan/tags.py), for Tidemill's, and for those that Batch adds to its machines.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_SubmitJob.html (propagateTags)
"""

# Source: https://docs.aws.amazon.com/tag-editor/latest/userguide/best-practices-and-strats.html
_TAG_TEXT = re.compile(r"[\w .:/=+@-]*")
_TAG_ALPHABET = "letters, digits, spaces and any of _ . : / = + - @"


def wrong_tag_key(key: str) -> tuple[str, str] | None:
    """The keys that are allowed instead of this one, and what to do; None if AWS takes it."""
    if key.lower().startswith("aws:"):
        return "keys that do not begin with aws:, which AWS keeps for itself", "Rename it"
    if not 1 <= len(key) <= 128:
        return f"keys of 1 to 128 characters; this one has {len(key)}", "Shorten it" if key else "Name the tag"
    if not _TAG_TEXT.fullmatch(key):
        return f"keys of {_TAG_ALPHABET}", "Leave out the other characters"
    if key.lower() == "name":
        return "keys other than Name, by which AWS's console lists resources and which Tidemill sets", "Rename it"
    return None


def wrong_tag_value(value: str) -> tuple[str, str] | None:
    """The same of a value, which may be empty."""
    if value.lower().startswith("aws:"):
        return "values that do not begin with aws:, which AWS keeps for itself", "Change it"
    if len(value) > 256:
        return f"values of at most 256 characters; this one has {len(value)}", "Shorten it"
    if not _TAG_TEXT.fullmatch(value):
        return f"values of {_TAG_ALPHABET}", "Leave out the other characters"
    return None
