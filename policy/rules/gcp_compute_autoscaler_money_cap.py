"""The stack's instance groups together stay below an amount of money per hour."""

from collections.abc import Iterator

from pulumi_policy import StackValidationArgs

from .common.caps import USD, over_usd
from .common.fleets import fleets
from .common.kinds import AUTOSCALERS
from .common.rule import HIGH, parameter, stack_rule
from .common.settings import settings


def violations(args: StackValidationArgs) -> Iterator[tuple[str, str]]:
    yield from over_usd("gcp", settings().region("gcp"), fleets(args.resources), parameter(args, "maxUsdPerHour"))


POLICY = stack_rule(
    __name__,
    *AUTOSCALERS,
    violations=violations,
    description="The hourly cost of a stack is capped, as far as prices are known.",
    severity=HIGH,
    parameters=USD,
)
