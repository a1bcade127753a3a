"""No grant uses owner, editor or viewer: these roles reach everything in a project.

Source: https://cloud.google.com/iam/docs/roles-overview#basic
"""

from .common.kinds import GRANTS
from .common.members import members, role
from .common.rule import CRITICAL, Resource, Violations, resource_rule

PRIMITIVE = ("roles/owner", "roles/editor", "roles/viewer")


@resource_rule("No primitive role is granted.", CRITICAL, *GRANTS)
def violations(args: Resource) -> Violations:
    if role(args) in PRIMITIVE:
        whom = ", ".join(members(args)) or "a member"
        yield f"{whom} would get {role(args)}, which reaches the whole project. Grant a predefined or custom role."
