"""The stack's instance groups together stay below an amount of money per hour."""

from .common.caps import USD, over_usd
from .common.fleets import groups
from .common.kinds import AUTOSCALERS, GROUPS
from .common.rule import HIGH, Stack, StackViolations, parameter, stack_rule
from .common.settings import settings


@stack_rule(
    "The hourly cost of a stack is capped; a price that is not known counts as the dearest known one.",
    HIGH,
    *AUTOSCALERS,
    *GROUPS,
    parameters=USD,
)
def violations(args: Stack) -> StackViolations:
    limits = (parameter(args, name) for name in USD)
    yield from over_usd("gcp", settings().region("gcp"), groups(args.resources), *limits)
