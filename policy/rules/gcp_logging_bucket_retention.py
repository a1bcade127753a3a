"""Log lines are kept for the time that the stack sets, not for the cloud's default.

Source: https://cloud.google.com/logging/docs/buckets#custom-retention
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common import retention
from .common.rule import MEDIUM, resource_rule

TYPE = "gcp:logging/projectBucketConfig:ProjectBucketConfig"
PARAMETERS = retention.parameters(3650)


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    yield from retention.violations(args, "retentionDays", "the cloud's default would apply")


POLICY = resource_rule(
    __name__,
    TYPE,
    violations=violations,
    description="Every log bucket has a retention.",
    severity=MEDIUM,
    parameters=PARAMETERS,
)
