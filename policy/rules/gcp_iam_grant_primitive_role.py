"""No grant uses owner, editor or viewer: these roles reach everything in a project.

Source: https://cloud.google.com/iam/docs/roles-overview#basic
"""

from .common.kinds import GRANTS
from .common.members import grants_of
from .common.rule import CRITICAL, Resource, Violations, resource_rule

PRIMITIVE = tuple(f"roles/{name}" for name in ("owner", "editor", "viewer", "admin", "writer", "reader"))


@resource_rule("No primitive role is granted.", CRITICAL, *GRANTS)
def violations(args: Resource) -> Violations:
    for grant in grants_of(args):
        if grant.role not in PRIMITIVE:
            continue
        whom = ", ".join(grant.members) or "a member"
        yield f"{whom} would get {grant.role}, which reaches the whole project. Grant a predefined or custom role."
