"""A compute environment shrinks to zero between jobs.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html (minvCpus)
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import MEDIUM, resource_rule
from .common.values import look


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    fewest = look(args.props, "computeResources", "minVcpus")
    if fewest:
        yield f"minVcpus is {fewest:g}: machines would be billed while nothing is queued. Set min_vcpus to 0."


POLICY = resource_rule(
    __name__,
    COMPUTE_ENVIRONMENT,
    violations=violations,
    description="Compute environments cost nothing between jobs.",
    severity=MEDIUM,
)
