"""There are no static keys: people and CI have logins that expire.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html#bp-workloads-use-roles
"""

from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import look


@resource_rule("There are no static access keys.", CRITICAL, "aws:iam/accessKey:AccessKey")
def violations(args: Resource) -> Violations:
    user = look(args.props, "user") or "a user"
    yield f"an access key of {user} never expires, and it is in the stack's state. Remove it; let {user} assume a role."
