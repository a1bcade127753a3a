"""There are no static keys: people and CI have logins that expire.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html#bp-workloads-use-roles
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.rule import CRITICAL, resource_rule
from .common.values import look

TYPE = "aws:iam/accessKey:AccessKey"


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    user = look(args.props, "user") or "a user"
    yield f"an access key of {user} never expires, and it is in the stack's state. Remove it; let {user} assume a role."


POLICY = resource_rule(
    __name__, TYPE, violations=violations, description="There are no static access keys.", severity=CRITICAL
)
