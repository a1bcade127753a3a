"""Log lines are kept for a limited time: without retention they are billed forever.

Source: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
"""

from .common import retention
from .common.rule import MEDIUM, Resource, Violations, resource_rule


@resource_rule(
    "Every log group has a retention.",
    MEDIUM,
    "aws:cloudwatch/logGroup:LogGroup",
    parameters=retention.parameters(3653),
)
def violations(args: Resource) -> Violations:
    yield from retention.violations(args, "retentionInDays", "lines are kept and billed forever")
