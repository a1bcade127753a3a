"""The stack's instance groups together stay below a number of vCPUs."""

from collections.abc import Iterator

from pulumi_policy import StackValidationArgs

from .common.caps import CPUS, over_cpus
from .common.fleets import fleets
from .common.kinds import AUTOSCALERS
from .common.rule import HIGH, parameter, stack_rule


def violations(args: StackValidationArgs) -> Iterator[tuple[str, str]]:
    yield from over_cpus(list(fleets(args.resources)), parameter(args, "maxCpus"))


POLICY = stack_rule(
    __name__,
    *AUTOSCALERS,
    violations=violations,
    description="The vCPUs that a stack may start are capped.",
    severity=HIGH,
    parameters=CPUS,
)
