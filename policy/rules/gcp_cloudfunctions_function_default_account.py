"""Functions and their builds have accounts of their own.

Source: https://cloud.google.com/run/docs/securing/service-identity
"""

from .common.accounts import is_default
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look


@resource_rule(
    "Functions and their builds do not use the project's default service account.",
    HIGH,
    "gcp:cloudfunctionsv2/function:Function",
)
def violations(args: Resource) -> Violations:
    for path in (("serviceConfig", "serviceAccountEmail"), ("buildConfig", "serviceAccount")):
        account = look(args.props, *path)
        if account is not UNKNOWN and is_default(account):
            yield (
                f"{'.'.join(path)} is {account or 'not set'}: it would be the project's default account, often an "
                "editor. Give it a gcp.serviceaccount.Account of its own."
            )
