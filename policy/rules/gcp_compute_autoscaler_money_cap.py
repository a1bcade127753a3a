"""The stack's instance groups together stay below an amount of money per hour."""

from .common.caps import USD, over_usd
from .common.fleets import fleets
from .common.kinds import AUTOSCALERS
from .common.rule import HIGH, Stack, StackViolations, parameter, stack_rule
from .common.settings import settings


@stack_rule("The hourly cost of a stack is capped, as far as prices are known.", HIGH, *AUTOSCALERS, parameters=USD)
def violations(args: Stack) -> StackViolations:
    yield from over_usd("gcp", settings().region("gcp"), fleets(args.resources), parameter(args, "maxUsdPerHour"))
