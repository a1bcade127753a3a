"""No grant uses owner, editor or viewer: these roles reach everything in a project.

Source: https://cloud.google.com/iam/docs/roles-overview#basic
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import GRANTS
from .common.members import members, role
from .common.rule import CRITICAL, resource_rule

PRIMITIVE = ("roles/owner", "roles/editor", "roles/viewer")


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    if role(args) in PRIMITIVE:
        whom = ", ".join(members(args)) or "a member"
        yield f"{whom} would get {role(args)}, which reaches the whole project. Grant a predefined or custom role."


POLICY = resource_rule(
    __name__, *GRANTS, violations=violations, description="No primitive role is granted.", severity=CRITICAL
)
