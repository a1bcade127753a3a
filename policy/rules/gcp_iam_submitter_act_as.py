"""A submitter may not act as another account: the worker's account reaches the team's data.

A submitter is any member that may publish to a topic.
Source: https://cloud.google.com/iam/docs/service-account-permissions
"""

from pulumi_policy import PolicyResource

from .common.kinds import GRANTS
from .common.members import grants, members, permissions, role
from .common.rule import CRITICAL, Stack, StackViolations, stack_rule

PUBLISHER = "roles/pubsub.publisher"
ACTING = (
    "roles/iam.serviceAccountAdmin",
    "roles/iam.serviceAccountKeyAdmin",
    "roles/iam.serviceAccountTokenCreator",
    "roles/iam.serviceAccountUser",
    "roles/iam.workloadIdentityUser",
)
"""The administrator of accounts may grant the others."""
PERMISSIONS = (
    "iam.serviceAccounts.actAs",
    "iam.serviceAccounts.getAccessToken",
    "iam.serviceAccounts.implicitDelegation",
    "iam.serviceAccounts.setIamPolicy",
    "iam.serviceAccounts.signBlob",
    "iam.serviceAccounts.signJwt",
    "iam.serviceAccountKeys.create",
)
_AGENT = "gcp-sa-"


@stack_rule("Submitters may not act as a service account.", CRITICAL, *GRANTS)
def violations(args: Stack) -> StackViolations:
    every = grants(args.resources)
    submitters = {m for g in every if role(g) == PUBLISHER for m in members(g) if _AGENT not in m}
    for grant in every:
        acting = [role(grant)] if role(grant) in ACTING else _permissions(args, grant)
        both = sorted(submitters.intersection(members(grant)))
        if acting and both:
            yield (
                (
                    f"{', '.join(both)} may publish work and would get {', '.join(acting)}: it could act as the "
                    "machines' account. Grant that to a member who does not submit."
                ),
                grant.urn,
            )


def _permissions(args: Stack, grant: PolicyResource) -> list[str]:
    return [p for p in permissions(args.resources, grant) if p in PERMISSIONS]
