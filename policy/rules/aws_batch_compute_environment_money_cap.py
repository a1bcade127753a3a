"""The stack's compute environments together stay below an amount of money per hour."""

from collections.abc import Iterator

from pulumi_policy import StackValidationArgs

from .common.batch import fleets
from .common.caps import USD, over_usd
from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import HIGH, parameter, stack_rule
from .common.settings import settings


def violations(args: StackValidationArgs) -> Iterator[tuple[str, str]]:
    yield from over_usd("aws", settings().region("aws"), fleets(args.resources), parameter(args, "maxUsdPerHour"))


POLICY = stack_rule(
    __name__,
    COMPUTE_ENVIRONMENT,
    violations=violations,
    description="The hourly cost of a stack is capped, as far as prices are known.",
    severity=HIGH,
    parameters=USD,
)
