"""A compute environment uses Batch's service-linked role.

With its own role, most changes replace the environment and end the jobs that run on it.
Source: https://docs.aws.amazon.com/batch/latest/userguide/updating-compute-environments.html
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import HIGH, resource_rule
from .common.values import look

_SERVICE_LINKED = ":role/aws-service-role/batch.amazonaws.com/"


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    role = look(args.props, "serviceRole")
    if role and _SERVICE_LINKED not in role:
        yield (
            f"serviceRole is {role}: with its own role an environment is replaced where it could be updated. "
            "Remove service_role; AWS Batch then uses AWSServiceRoleForBatch."
        )


POLICY = resource_rule(
    __name__,
    COMPUTE_ENVIRONMENT,
    violations=violations,
    description="Compute environments use the service-linked role, so that updates happen in place.",
    severity=HIGH,
)
