"""Compute environments of AWS Batch as fleets."""

from collections.abc import Sequence

from pulumi_policy import PolicyResource

from .caps import Fleet
from .kinds import COMPUTE_ENVIRONMENT
from .values import items, look, whole


def fleets(resources: Sequence[PolicyResource]) -> list[Fleet]:
    """Every compute environment of a stack that Batch manages and whose size is known."""
    found = [_fleet(r) for r in resources if r.resource_type == COMPUTE_ENVIRONMENT]
    return [one for one in found if one]


def _fleet(environment: PolicyResource) -> Fleet | None:
    resources = look(environment.props, "computeResources")
    cpus = whole(look(resources, "maxVcpus"))
    market = look(resources, "type")
    if cpus is None or not isinstance(market, str):
        return None
    # What Fargate runs on has no type, and so no price in the table.
    named = ["FARGATE"] if market.startswith("FARGATE") else items(look(resources, "instanceTypes"))
    types = tuple(kind for kind in named if isinstance(kind, str))
    percent = whole(look(resources, "bidPercentage"))
    return Fleet(environment.urn, cpus, types, market.endswith("SPOT"), percent=percent)
