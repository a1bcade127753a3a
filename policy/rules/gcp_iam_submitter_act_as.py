"""A submitter may not act as another account: the worker's account reaches the team's data.

A submitter is any member that may publish to a topic.
Source: https://cloud.google.com/iam/docs/service-account-permissions
"""

from typing import Any

from .common.kinds import GRANTS
from .common.members import grants, permissions
from .common.rule import CRITICAL, Stack, StackViolations, stack_rule

PUBLISHERS = ("roles/pubsub.publisher", "roles/pubsub.editor", "roles/pubsub.admin")
PUBLISH = "pubsub.topics.publish"
ACTING = (
    "roles/editor",
    "roles/iam.securityAdmin",
    "roles/iam.serviceAccountAdmin",
    "roles/iam.serviceAccountKeyAdmin",
    "roles/iam.serviceAccountTokenCreator",
    "roles/iam.serviceAccountUser",
    "roles/iam.workloadIdentityUser",
    "roles/owner",
    "roles/resourcemanager.projectIamAdmin",
)
"""An administrator may grant the others."""
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
    held = [(grant, [grant.role, *permissions(args.resources, grant)]) for grant in grants(args.resources)]
    submitters = {m for g, may in held if _publishes(may) for m in g.members if _AGENT not in m}
    for grant, may in held:
        acting = [each for each in may if each in ACTING or each in PERMISSIONS]
        both = sorted(submitters.intersection(grant.members))
        if acting and both:
            message = (
                f"{', '.join(both)} may publish work and would get {', '.join(acting)}: it could act as the "
                "machines' account. Grant that to a member who does not submit."
            )
            yield message, grant.resource.urn


def _publishes(may: list[Any]) -> bool:
    return PUBLISH in may or any(publisher in may for publisher in PUBLISHERS)
