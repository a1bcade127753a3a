"""A compute environment shrinks to zero between jobs.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html (minvCpus)
"""

from tidemill.planned_fleet import whole

from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import MEDIUM, Resource, Violations, resource_rule
from .common.values import look


@resource_rule("Compute environments cost nothing between jobs.", MEDIUM, COMPUTE_ENVIRONMENT)
def violations(args: Resource) -> Violations:
    fewest = whole(look(args.props, "computeResources", "minVcpus"))
    if fewest:
        yield f"minVcpus is {fewest}: machines would be billed while nothing is queued. Set min_vcpus to 0."
