"""There are no static keys: people and CI have logins that expire.

Source: https://cloud.google.com/iam/docs/best-practices-for-managing-service-account-keys
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.rule import CRITICAL, resource_rule
from .common.values import look

TYPES = ("gcp:serviceaccount/key:Key", "gcp:storage/hmacKey:HmacKey")


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    account = look(args.props, "serviceAccountId") or look(args.props, "serviceAccountEmail") or "a service account"
    yield (
        f"a key of {account} never expires, and it is in the stack's state. Remove it; impersonate the account, "
        "or use workload identity federation."
    )


POLICY = resource_rule(
    __name__,
    *TYPES,
    violations=violations,
    description="There are no static keys of service accounts.",
    severity=CRITICAL,
)
