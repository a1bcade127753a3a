"""Log lines are kept for the time that the stack says, not for what the cloud takes when nothing is said.

Source: https://cloud.google.com/logging/docs/buckets#custom-retention
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.rule import MEDIUM, parameter, resource_rule
from .common.values import UNKNOWN, look

TYPE = "gcp:logging/projectBucketConfig:ProjectBucketConfig"
PARAMETERS = {
    "maxDays": {
        "type": "integer",
        "minimum": 1,
        "maximum": 3650,
        "default": 3650,
        "description": "Days that log lines may be kept at most.",
    }
}


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    """Yield what is wrong with a log bucket's retention, with its fix."""
    days, most = look(args.props, "retentionDays"), parameter(args, "maxDays")
    if days is UNKNOWN:
        return
    if not days:
        yield f"retentionDays is {'0' if days == 0 else 'not set'}: nobody said how long lines are kept. Set it."
    elif days > most:
        yield f"retentionDays is {days:g}: lines may be kept for {most} days at most. Lower it."


POLICY = resource_rule(
    __name__,
    TYPE,
    violations=violations,
    description="Every log bucket has a retention.",
    severity=MEDIUM,
    parameters=PARAMETERS,
)
