"""Compute environments of AWS Batch as fleets."""

from collections.abc import Sequence

from pulumi_policy import PolicyResource

from .caps import Fleet, whole
from .kinds import COMPUTE_ENVIRONMENT
from .values import items, look


def fleets(resources: Sequence[PolicyResource]) -> list[Fleet]:
    """Every compute environment of a stack that Batch manages on EC2 and whose size is known."""
    found = [_fleet(r) for r in resources if r.resource_type == COMPUTE_ENVIRONMENT]
    return [one for one in found if one]


def _fleet(environment: PolicyResource) -> Fleet | None:
    resources = look(environment.props, "computeResources")
    cpus = whole(look(resources, "maxVcpus"))
    if cpus is None or look(resources, "type") not in ("EC2", "SPOT"):
        return None
    types = tuple(kind for kind in items(look(resources, "instanceTypes")) if isinstance(kind, str))
    percent = whole(look(resources, "bidPercentage"))
    return Fleet(environment.urn, cpus, types, look(resources, "type") == "SPOT", percent=percent)
