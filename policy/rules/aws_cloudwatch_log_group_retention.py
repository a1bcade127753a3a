"""Log lines are kept for a limited time: without retention they are billed until somebody notices.

Source: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common import retention
from .common.rule import MEDIUM, resource_rule

TYPE = "aws:cloudwatch/logGroup:LogGroup"
PARAMETERS = retention.parameters(3653)


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    yield from retention.violations(args, "retentionInDays", "lines are kept and billed forever")


POLICY = resource_rule(
    __name__,
    TYPE,
    violations=violations,
    description="Every log group has a retention.",
    severity=MEDIUM,
    parameters=PARAMETERS,
)
