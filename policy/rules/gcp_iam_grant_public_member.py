"""No grant is to everybody or to every identity of a workload identity pool.

Source: https://cloud.google.com/iam/docs/principal-identifiers
"""

from .common.kinds import GRANTS
from .common.members import members, role
from .common.rule import CRITICAL, Resource, Violations, resource_rule

EVERYBODY = ("allUsers", "allAuthenticatedUsers")


@resource_rule("No grant is to everybody.", CRITICAL, *GRANTS)
def violations(args: Resource) -> Violations:
    for member in members(args):
        if member in EVERYBODY:
            yield f"{member} would get {role(args) or 'a role'}. Name users, groups or service accounts."
        elif member.startswith("principalSet:") and member.endswith("/*"):
            yield (
                f"{member} would get {role(args) or 'a role'}: every identity of the pool. Name an attribute of the "
                "repository or the environment."
            )
