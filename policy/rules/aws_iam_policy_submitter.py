"""No policy that allows submitting jobs also allows registering job definitions or passing roles.

With both, a submitter can run any image with any host path mounted and so be root on the queue's machines. Images
belong to the queue, and the stack registers their definitions.
Source: https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsbatch.html
"""

from collections.abc import Mapping
from typing import Any

from .common.documents import UnreadableDocumentError, forbidden_to_submitters, parse
from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import items, look

TYPES = (
    "aws:iam/policy:Policy",
    "aws:iam/rolePolicy:RolePolicy",
    "aws:iam/userPolicy:UserPolicy",
    "aws:iam/groupPolicy:GroupPolicy",
    "aws:iam/role:Role",
)


def documents_of(props: Mapping[str, Any]) -> list[Any]:
    """List the permission documents in a resource's inputs; a role's trust policy is not one.

    Raises:
        UnreadableDocumentError: One of them is not a JSON object.
    """
    inline = [look(policy, "policy") for policy in items(look(props, "inlinePolicies"))]
    return [parse(document) for document in [look(props, "policy"), *inline]]


@resource_rule(
    "A policy that allows batch:SubmitJob allows neither batch:RegisterJobDefinition nor iam:PassRole.",
    CRITICAL,
    *TYPES,
)
def violations(args: Resource) -> Violations:
    try:
        actions = list(forbidden_to_submitters(documents_of(args.props)))
    except UnreadableDocumentError as error:
        yield f"{error}: pass json.dumps(...) of the document."
        return
    for action in actions:
        yield (
            f"the policy allows batch:SubmitJob and {action}, perhaps by a wildcard: a submitter with both is "
            f"root on the machines. Name the submitter's actions one by one, without {action}."
        )
