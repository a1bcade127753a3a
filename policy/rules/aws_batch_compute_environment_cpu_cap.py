"""The stack's compute environments together stay below a number of vCPUs."""

from .common.caps import CPUS, over_cpus
from .common.fleets import environments
from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import HIGH, Stack, StackViolations, parameter, stack_rule


@stack_rule("The vCPUs that a stack may start are capped.", HIGH, COMPUTE_ENVIRONMENT, parameters=CPUS)
def violations(args: Stack) -> StackViolations:
    yield from over_cpus(environments(args.resources), parameter(args, "maxCpus"))
