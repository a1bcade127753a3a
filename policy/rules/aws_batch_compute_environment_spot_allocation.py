"""Spot machines are chosen by free capacity and price, not by price alone.

Source: https://docs.aws.amazon.com/batch/latest/userguide/allocation-strategies.html
"""

from .common.kinds import COMPUTE_ENVIRONMENT
from .common.rule import MEDIUM, Resource, Violations, resource_rule
from .common.values import UNKNOWN, look

ALLOWED = ("SPOT_PRICE_CAPACITY_OPTIMIZED", "SPOT_CAPACITY_OPTIMIZED")


@resource_rule("Spot environments choose machines by free capacity and price.", MEDIUM, COMPUTE_ENVIRONMENT)
def violations(args: Resource) -> Violations:
    strategy = look(args.props, "computeResources", "allocationStrategy")
    if look(args.props, "computeResources", "type") == "SPOT" and strategy is not UNKNOWN and strategy not in ALLOWED:
        yield (
            f"allocationStrategy is {strategy or 'not set'}: machines would come from the cheapest pools, which are "
            f"reclaimed first. Set it to {ALLOWED[0]}."
        )
