"""Log lines are kept for the time that the stack sets, not for the cloud's default.

Source: https://cloud.google.com/logging/docs/buckets#custom-retention
"""

from .common import retention
from .common.rule import MEDIUM, Resource, Violations, resource_rule


@resource_rule(
    "Every log bucket has a retention.",
    MEDIUM,
    "gcp:logging/projectBucketConfig:ProjectBucketConfig",
    parameters=retention.parameters(3650),
)
def violations(args: Resource) -> Violations:
    yield from retention.violations(args, "retentionDays", "the cloud's default would apply")
