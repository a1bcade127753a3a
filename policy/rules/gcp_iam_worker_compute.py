"""Workers hold no `compute.*` permission: user code runs with their account and could remove or start machines.

A worker's account is one that a template's machines run as.
Source: https://cloud.google.com/compute/docs/access/iam
"""

from .common.kinds import GRANTS, TEMPLATES
from .common.members import grants, is_granted_to, permissions
from .common.rule import CRITICAL, Stack, StackViolations, stack_rule
from .common.values import look

ACCOUNT = "gcp:serviceaccount/account:Account"


@stack_rule("Workers hold no compute.* permission.", CRITICAL, *GRANTS)
def violations(args: Stack) -> StackViolations:
    resources = args.resources
    accounts = [r for r in resources if r.resource_type == ACCOUNT]
    templates = [r for r in resources if r.resource_type in TEMPLATES]
    seen: set[str] = set()
    for template in templates:
        email = look(template.props, "serviceAccount", "email")
        sources = template.property_dependencies.get("serviceAccount", [])
        # Unknown addresses are never equal: compare their sources instead.
        is_known = isinstance(email, str)
        owner = next((a for a in accounts if (is_known and look(a.props, "email") == email) or a in sources), None)
        for grant in (g for g in grants(resources) if is_granted_to(g, owner, email)):
            urn = grant.resource.urn
            held = [p for p in permissions(resources, grant) if p.startswith("compute.")]
            if urn not in seen and (held or str(grant.role).startswith("roles/compute.")):
                seen.add(urn)
                message = (
                    f"the account of {template.name}'s machines would hold {', '.join(held) or grant.role}: user "
                    "code could start and remove machines. Give it to an account that no machine runs as."
                )
                yield message, urn
