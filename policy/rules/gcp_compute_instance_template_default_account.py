"""Machines have an account of their own, not the project's default one.

Source: https://cloud.google.com/compute/docs/access/service-accounts#default_service_account
"""

from .common.accounts import is_default
from .common.kinds import MACHINES
from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look


@resource_rule("Machines do not use the project's default service account.", CRITICAL, *MACHINES)
def violations(args: Resource) -> Violations:
    account = look(args.props, "serviceAccount")
    email = look(account, "email")
    # Without the block a machine has no account at all.
    if account is not None and account is not UNKNOWN and email is not UNKNOWN and is_default(email):
        yield (
            f"serviceAccount.email is {email or 'not set'}: machines would be the project's default account, often an "
            "editor. Give them a gcp.serviceaccount.Account of their own."
        )
