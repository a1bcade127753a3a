"""The stack's instance groups together stay below a number of vCPUs."""

from .common.caps import CPUS, over_cpus
from .common.fleets import groups
from .common.kinds import AUTOSCALERS, GROUPS
from .common.rule import HIGH, Stack, StackViolations, parameter, stack_rule


@stack_rule("The vCPUs that a stack may start are capped.", HIGH, *AUTOSCALERS, *GROUPS, parameters=CPUS)
def violations(args: Stack) -> StackViolations:
    yield from over_cpus(groups(args.resources), parameter(args, "maxCpus"))
