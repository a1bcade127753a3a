"""The stack's compute environments stay below a number of vCPUs together."""

from collections.abc import Iterator

from pulumi_policy import StackValidationArgs

from .common.batch import fleets
from .common.caps import CPUS, over_cpus
from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import HIGH, parameter, stack_rule


def violations(args: StackValidationArgs) -> Iterator[tuple[str, str]]:
    """Yield that the environments may reach too many vCPUs, with the URN of the largest."""
    yield from over_cpus(fleets(args.resources), parameter(args, "maxCpus"))


POLICY = stack_rule(
    __name__,
    COMPUTE_ENVIRONMENT,
    violations=violations,
    description="The vCPUs that a stack may start are capped.",
    severity=HIGH,
    parameters=CPUS,
)
