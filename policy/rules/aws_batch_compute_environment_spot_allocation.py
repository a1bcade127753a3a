"""Spot machines are chosen by free capacity and price, not by price alone.

Source: https://docs.aws.amazon.com/batch/latest/userguide/allocation-strategies.html
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import MEDIUM, resource_rule
from .common.values import UNKNOWN, look

ALLOWED = ("SPOT_PRICE_CAPACITY_OPTIMIZED", "SPOT_CAPACITY_OPTIMIZED")


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    strategy = look(args.props, "computeResources", "allocationStrategy")
    if look(args.props, "computeResources", "type") == "SPOT" and strategy is not UNKNOWN and strategy not in ALLOWED:
        yield (
            f"allocationStrategy is {strategy or 'not set'}: machines would come from the cheapest pools, which are "
            f"reclaimed first. Set it to {ALLOWED[0]}."
        )


POLICY = resource_rule(
    __name__,
    COMPUTE_ENVIRONMENT,
    violations=violations,
    description="Spot environments choose machines by free capacity and price.",
    severity=MEDIUM,
)
