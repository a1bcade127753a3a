"""No role combines, through several policies, what one submitter policy must not have.

This is ``aws_iam_policy_submitter`` over everything that the stack attaches to one role.
"""

from collections.abc import Iterator, Sequence

from pulumi_policy import PolicyResource

from .aws_iam_policy_submitter import documents_of
from .common.companions import companions
from .common.documents import UnreadableDocumentError, forbidden_to_submitters
from .common.rule import CRITICAL, Stack, StackViolations, stack_rule
from .common.values import items, look

ROLE = "aws:iam/role:Role"
INLINE = "aws:iam/rolePolicy:RolePolicy"
ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
ATTACHMENTS = (
    (ATTACHMENT, "role", "policyArn"),
    ("aws:iam/policyAttachment:PolicyAttachment", "roles", "policyArn"),
    ("aws:iam/rolePolicyAttachmentsExclusive:RolePolicyAttachmentsExclusive", "roleName", "policyArns"),
)
"""Types that attach managed policies, with their properties for the role and for the policies."""
MANAGED = "aws:iam/policy:Policy"
TOO_WIDE = ("/AdministratorAccess", "/PowerUserAccess", "/AWSBatchFullAccess")
"""AWS's own policies that hold both batch:SubmitJob and batch:RegisterJobDefinition."""
IAM_FULL_ACCESS = {"Statement": {"Effect": "Allow", "Action": "iam:*", "Resource": "*"}}


@stack_rule("A role that may submit jobs may neither register job definitions nor pass roles.", CRITICAL, ROLE)
def violations(args: Stack) -> StackViolations:
    resources = args.resources
    for role in (r for r in resources if r.resource_type == ROLE):
        attached = list(_attached(resources, role))
        arns = [arn for holder, key in attached for arn in items(look(holder.props, key)) if isinstance(arn, str)]
        for arn in arns:
            if arn.endswith(TOO_WIDE):
                yield f"{arn} is attached: it allows registering job definitions. Attach a submitter policy.", role.urn
        managed = [p for holder, key in attached for p in _managed(resources, holder, key)]
        try:
            parts = [role, *companions(resources, INLINE, "role", role, ("name", "id")), *managed]
            documents = [document for part in parts for document in documents_of(part.props)]
            documents += [IAM_FULL_ACCESS for arn in arns if arn.endswith("/IAMFullAccess")]
        except UnreadableDocumentError:
            continue
        for action in forbidden_to_submitters(documents):
            message = (
                f"the role may batch:SubmitJob and {action} through its policies together: that is root "
                f"on the machines. Give {action} to another role."
            )
            yield message, role.urn


def _attached(resources: Sequence[PolicyResource], role: PolicyResource) -> Iterator[tuple[PolicyResource, str]]:
    """Resources that attach managed policies to a role, each with its property that names them."""
    yield role, "managedPolicyArns"
    for kind, owner, key in ATTACHMENTS:
        yield from ((attachment, key) for attachment in companions(resources, kind, owner, role, ("name", "id")))


def _managed(resources: Sequence[PolicyResource], holder: PolicyResource, key: str) -> Iterator[PolicyResource]:
    arns = [arn for arn in items(look(holder.props, key)) if isinstance(arn, str)]
    sources = holder.property_dependencies.get(key, [])
    for policy in (r for r in resources if r.resource_type == MANAGED):
        if policy in sources or look(policy.props, "arn") in arns:
            yield policy
