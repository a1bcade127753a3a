"""No grant is to everybody or to every identity of a workload identity pool.

Source: https://cloud.google.com/iam/docs/principal-identifiers
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import GRANTS
from .common.members import members, role
from .common.rule import CRITICAL, resource_rule

EVERYBODY = ("allUsers", "allAuthenticatedUsers")


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    for member in members(args):
        if member in EVERYBODY:
            yield f"{member} would get {role(args) or 'a role'}. Name users, groups or service accounts."
        elif member.startswith("principalSet:") and member.endswith("/*"):
            yield (
                f"{member} would get {role(args) or 'a role'}: every identity of the pool. Name an attribute of the "
                "repository or the environment."
            )


POLICY = resource_rule(
    __name__, *GRANTS, violations=violations, description="No grant is to everybody.", severity=CRITICAL
)
