"""Log lines are kept for a time, not for ever: without retention they are billed until somebody looks.

Source: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.rule import MEDIUM, parameter, resource_rule
from .common.values import UNKNOWN, look

TYPE = "aws:cloudwatch/logGroup:LogGroup"
PARAMETERS = {
    "maxDays": {
        "type": "integer",
        "minimum": 1,
        "maximum": 3653,
        "default": 3653,
        "description": "Days that log lines may be kept at most.",
    }
}


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    """Yield what is wrong with a log group's retention, with its fix."""
    days, most = look(args.props, "retentionInDays"), parameter(args, "maxDays")
    if days is UNKNOWN:
        return
    if not days:
        yield f"retentionInDays is {'0' if days == 0 else 'not set'}: lines are kept and billed for ever. Set it."
    elif days > most:
        yield f"retentionInDays is {days:g}: lines may be kept for {most} days at most. Lower it."


POLICY = resource_rule(
    __name__,
    TYPE,
    violations=violations,
    description="Every log group has a retention.",
    severity=MEDIUM,
    parameters=PARAMETERS,
)
