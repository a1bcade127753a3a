"""The stack's compute environments together stay below a number of vCPUs."""

from collections.abc import Iterator

from pulumi_policy import StackValidationArgs

from .common.batch import fleets
from .common.caps import CPUS, over_cpus
from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import HIGH, parameter, stack_rule


def violations(args: StackValidationArgs) -> Iterator[tuple[str, str]]:
    yield from over_cpus(fleets(args.resources), parameter(args, "maxCpus"))


POLICY = stack_rule(
    __name__,
    COMPUTE_ENVIRONMENT,
    violations=violations,
    description="The vCPUs that a stack may start are capped.",
    severity=HIGH,
    parameters=CPUS,
)
