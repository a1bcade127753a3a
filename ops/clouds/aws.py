"""Facts about AWS that the platform team's commands need."""

import re
from collections.abc import Mapping
from typing import Any

from components.config import NewNetwork, Queue, StackConfig

CLIENT = ("boto3", "botocore", "pulumi_aws")
REGION = "us-west-2"
"""Of a new stack."""
BACKEND = "s3://"
"""How the URL of a backend on this cloud begins."""

SETTINGS = (
    "accessKey", "allowedAccountIds", "assumeRoleWithWebIdentity", "assumeRoles", "customCaBundle", "defaultTags",
    "ec2MetadataServiceEndpoint", "ec2MetadataServiceEndpointMode", "endpoints", "forbiddenAccountIds", "httpProxy",
    "httpsProxy", "ignoreTags", "insecure", "maxRetries", "noProxy", "profile", "region", "retryMode",
    "s3UsEast1RegionalEndpoint", "s3UsePathStyle", "secretKey", "sharedConfigFiles", "sharedCredentialsFiles",
    "skipCredentialsValidation", "skipMetadataApiCheck", "skipRegionValidation", "skipRequestingAccountId",
    "stsRegion", "tagPolicyCompliance", "token", "tokenBucketRateLimiterCapacity", "useDualstackEndpoint",
    "useFipsEndpoint", "userAgents",
)  # fmt: skip
"""Of the provider, which a stack file may have as `aws:NAME`."""
SETTINGS_END = ()
"""Endings of more such names."""
ELSEWHERE = (
    "accessKey", "allowedAccountIds", "assumeRoleWithWebIdentity", "assumeRoles", "endpoints", "forbiddenAccountIds",
    "profile",
)  # fmt: skip
"""Settings that decide as whom, and in which account, a stack is made."""
TAG_RULE = "aws-any-resource-tags"
"""The policy rule that requires tags."""
HOLDERS = ("role", "user", "group", "roles")
"""Inputs that name who gets permissions."""
NAMES_ARE_PATTERNS = True
"""Permissions are for names that contain an environment. Source: components/aws/ci/home.py (``*-dev-*``)"""
REPOSITORY_PER_IMAGE = True

PRICE_PARTS = ("offerings", "on_demand", "spot", "services", "interruption")

REMOVED_WITH = ("replace", "its job queue and compute environments are")
"""The value of `allow` that lets a queue go, and what it protects otherwise."""

WANTED_TYPES = 10
"""Types that a Spot queue should be able to choose from: AWS asks for ten and more.
Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-best-practices.html"""
WANTED_WHEN_SCARCE = 20
WANTED_BY = "AWS advises"
CHEAPEST_FIRST = False
"""Allocation is by price and free capacity, so the order of families means nothing."""
RECLAIMS_COUNT = True
"""The Spot advisor tells how often a family's machines are reclaimed."""
ZONES_MAY_CHANGE = True
SIZES_MAY_WIDEN = True


def network_zones(config: StackConfig) -> int | None:
    """The zones of a network that the stack makes; None where it does not."""
    return None if config.network.shared else (config.network.create or NewNetwork()).zones


def in_one_zone(queue: Queue) -> bool:
    return queue.aws.placement_group == "cluster"


_ANOTHER_LOGIN = ("assumeRoles", "assumeRoleWithWebIdentity", "profile")


def wrong_home(identity: str, settings: Mapping[str, Any]) -> str | None:
    """The account of a role, and the key of a stack file that does not admit it; None if it is admitted or unknown.

    Args:
        identity: The role's ARN.
    """
    role = re.match(r"arn:[\w-]+:iam::(\d{12}):role/", identity)
    if not role or any(settings.get(f"aws:{name}") for name in _ANOTHER_LOGIN):
        return None
    allowed, forbidden = (_accounts(settings.get(f"aws:{name}AccountIds")) for name in ("allowed", "forbidden"))
    if allowed and role[1] not in allowed:
        return f"the account {role[1]}; aws:allowedAccountIds: {', '.join(allowed)}"
    return f"the account {role[1]}, which is one of aws:forbiddenAccountIds" if role[1] in forbidden else None


def _accounts(value: Any) -> list[str]:
    """The account ids of a provider's key: a list, or its JSON."""
    listed = value if isinstance(value, list) else re.findall(r"[^\s,\[\]\"']+", str(value or ""))
    return [str(each) for each in listed]
