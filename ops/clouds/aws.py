"""Facts about AWS that the platform team's commands need."""

from components.config import NewNetwork, Queue, StackConfig

CLIENT = ("boto3", "botocore", "pulumi_aws")
REGION = "us-west-2"
"""Of a new stack."""

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
HOLDERS = ("role", "user", "group", "roles")
"""Inputs that name who gets permissions."""
NAMES_ARE_PATTERNS = True
"""Permissions are for names that contain an environment. Source: components/aws/ci_policies.py (``*-dev-*``)"""
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
