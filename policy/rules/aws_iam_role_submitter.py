"""No role combines, through several policies, what one submitter policy must not have.

This is ``aws_iam_policy_submitter`` over everything that the stack attaches to one role.
"""

from collections.abc import Iterator, Sequence

from pulumi_policy import PolicyResource

from .aws_iam_policy_submitter import documents_of
from .common.companions import companions
from .common.documents import UnreadableDocumentError, forbidden_to_submitters
from .common.rule import CRITICAL, Stack, StackViolations, stack_rule
from .common.values import look

ROLE = "aws:iam/role:Role"
INLINE = "aws:iam/rolePolicy:RolePolicy"
ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
MANAGED = "aws:iam/policy:Policy"
TOO_WIDE = ("/AdministratorAccess", "/PowerUserAccess", "/AWSBatchFullAccess")
"""AWS's own policies that hold both batch:SubmitJob and batch:RegisterJobDefinition."""


@stack_rule("A role that may submit jobs may neither register job definitions nor pass roles.", CRITICAL, ROLE)
def violations(args: Stack) -> StackViolations:
    resources = args.resources
    for role in (r for r in resources if r.resource_type == ROLE):
        attachments = companions(resources, ATTACHMENT, "role", role, ("name", "id"))
        for attachment in attachments:
            arn = look(attachment.props, "policyArn")
            if isinstance(arn, str) and arn.endswith(TOO_WIDE):
                yield f"{arn} is attached: it allows registering job definitions. Attach a submitter policy.", role.urn
        managed = [p for a in attachments for p in _managed(resources, a)]
        try:
            parts = [role, *companions(resources, INLINE, "role", role, ("name", "id")), *managed]
            documents = [document for part in parts for document in documents_of(part.props)]
        except UnreadableDocumentError:
            continue
        for action in forbidden_to_submitters(documents):
            message = (
                f"the role may batch:SubmitJob and {action} through its policies together: that is root "
                f"on the machines. Give {action} to another role."
            )
            yield message, role.urn


def _managed(resources: Sequence[PolicyResource], attachment: PolicyResource) -> Iterator[PolicyResource]:
    arn = look(attachment.props, "policyArn")
    sources = attachment.property_dependencies.get("policyArn", [])
    for policy in (r for r in resources if r.resource_type == MANAGED):
        if policy in sources or (isinstance(arn, str) and arn == look(policy.props, "arn")):
            yield policy
