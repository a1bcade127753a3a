"""The stack's compute environments together stay below an amount of money per hour."""

from .common.caps import USD, over_usd
from .common.fleets import environments
from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import HIGH, Stack, StackViolations, parameter, stack_rule
from .common.settings import settings


@stack_rule(
    "The hourly cost of a stack is capped; a price that is not known counts as the dearest known one.",
    HIGH,
    COMPUTE_ENVIRONMENT,
    parameters=USD,
)
def violations(args: Stack) -> StackViolations:
    limits = (parameter(args, name) for name in USD)
    yield from over_usd("aws", settings().region("aws"), environments(args.resources), *limits)
