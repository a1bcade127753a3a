"""A price for a limit: where none is known in a region, the dearest that is known elsewhere, never zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from tidemill.machines import MachineType, cpus_of, find, table
from tidemill.prices.table import MachinePrice, machine, on_demand, regions

_LOCAL_DISKS = 2
"""How often a machine counts whose local disks no priced type of its family has: they cost less than the rest of it.
Source: https://cloud.google.com/compute/disks-image-pricing (30 % of c3-standard-88-lssd, the most of any known)"""


def at_most(cloud: str, region: str | None, type: str, *, gpus: int = 0) -> MachinePrice | None:  # noqa: A002
    """The price of a machine, with an On-Demand price at least as high as any that is known; None without any.

    Without a price in the region it is the dearest of the type in any region. Without that, it is the dearest of its
    family: as many machines of each other type as hold all of its vCPUs, memory, accelerators and local disks.

    Args:
        region: None where the stack does not name it.
        gpus: See `machine`.
    """
    price = machine(cloud, region, type, gpus=gpus) if region else None
    if price is not None and price.on_demand is not None:
        return price
    elsewhere = _anywhere(cloud, type, gpus) or _of_family(cloud, type, gpus)
    if price is None or elsewhere is None:
        return elsewhere or price
    return replace(price, on_demand=elsewhere.on_demand)


@cache
def _anywhere(cloud: str, type: str, gpus: int) -> MachinePrice | None:  # noqa: A002
    priced = [price for region in regions(cloud) if (price := on_demand(cloud, region, type, gpus=gpus))]
    top = max(priced, key=lambda each: each.usd, default=None)
    return top and MachinePrice(top.usd, None, top.as_of, f"the dearest region of {top.source}")


@cache
def _of_family(cloud: str, type: str, gpus: int) -> MachinePrice | None:  # noqa: A002
    scaled = [
        replace(price, on_demand=price.on_demand * times)
        for other, times in _relatives(cloud, type, gpus)
        if (price := _anywhere(cloud, other.type, other.gpus if other.attach else 0)) and price.on_demand is not None
    ]
    return max(scaled, key=lambda each: each.on_demand or 0.0, default=None)


def _relatives(cloud: str, type: str, gpus: int) -> Iterator[tuple[MachineType, float]]:  # noqa: A002
    """The types of the same family, and how many of each hold all that a machine has."""
    own = find(cloud, type, gpus=gpus)
    if own is None:
        # A custom type of GCP has its vCPUs in its name, and memory that the table does not know.
        family, cpus = type.rpartition("/")[2].partition("-")[0], cpus_of(cloud, type)
        same = [other for other in table(cloud).types if other.family == family] if cpus else []
        yield from ((other, (cpus or 0) / other.cpus) for other in same)
        return
    for other in table(cloud).types:
        # A flex type costs less than the one that always has its whole processor.
        if other.family in (own.family, own.family.removesuffix("-flex")) and (times := _times(own, other)):
            yield other, times


def _times(own: MachineType, other: MachineType) -> float | None:
    """How many of another type hold all that one has; None where no number of them does."""
    parts = [(getattr(own, part), getattr(other, part)) for part in ("cpus", "memory_mib", "gpus", "neurons")]
    if any(has and not others for has, others in parts):
        return None
    if own.local_gib and not other.local_gib:
        return _LOCAL_DISKS * max(has / others for has, others in parts if others)
    return max(has / others for has, others in [*parts, (own.local_gib, other.local_gib)] if others)
