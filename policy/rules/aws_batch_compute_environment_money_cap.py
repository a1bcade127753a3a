"""The stack's compute environments stay below an amount of money per hour together."""

from collections.abc import Iterator

from pulumi_policy import StackValidationArgs

from .common.batch import fleets
from .common.caps import USD, over_usd
from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import HIGH, parameter, stack_rule
from .common.settings import settings


def violations(args: StackValidationArgs) -> Iterator[tuple[str, str]]:
    """Yield that the environments may together cost too much per hour, with the URN of the most expensive one."""
    yield from over_usd("aws", settings().region("aws"), fleets(args.resources), parameter(args, "maxUsdPerHour"))


POLICY = stack_rule(
    __name__,
    COMPUTE_ENVIRONMENT,
    violations=violations,
    description="The money that a stack may burn in an hour is capped, as far as prices are known.",
    severity=HIGH,
    parameters=USD,
)
