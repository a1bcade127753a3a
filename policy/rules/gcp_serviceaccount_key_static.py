"""There are no static keys: people and CI have logins that expire.

Source: https://cloud.google.com/iam/docs/best-practices-for-managing-service-account-keys
"""

from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import look

TYPES = ("gcp:serviceaccount/key:Key", "gcp:storage/hmacKey:HmacKey")


@resource_rule("There are no static keys of service accounts.", CRITICAL, *TYPES)
def violations(args: Resource) -> Violations:
    account = look(args.props, "serviceAccountId") or look(args.props, "serviceAccountEmail") or "a service account"
    yield (
        f"a key of {account} never expires, and it is in the stack's state. Remove it; impersonate the account, "
        "or use workload identity federation."
    )
