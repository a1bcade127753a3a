"""A compute environment uses Batch's service-linked role.

With its own role, most changes replace the environment and end the jobs that run on it.
Source: https://docs.aws.amazon.com/batch/latest/userguide/updating-compute-environments.html
"""

from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import look

_SERVICE_LINKED = ":role/aws-service-role/batch.amazonaws.com/"


@resource_rule(
    "Compute environments use the service-linked role, so that updates happen in place.", HIGH, COMPUTE_ENVIRONMENT
)
def violations(args: Resource) -> Violations:
    role = look(args.props, "serviceRole")
    if role and _SERVICE_LINKED not in role:
        yield (
            f"serviceRole is {role}: with its own role an environment is replaced where it could be updated. "
            "Remove service_role; AWS Batch then uses AWSServiceRoleForBatch."
        )
