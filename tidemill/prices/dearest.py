"""A price for a limit: where none is known in a region, the dearest that is known elsewhere, never zero."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from tidemill.prices.table import MachinePrice, covered, machine, on_demand, types


def at_most(
    cloud: str,
    region: str | None,
    type: str,  # noqa: A002
    cpus: Callable[[str], int | None],
    *,
    gpus: int = 0,
) -> MachinePrice | None:
    """The price of a machine, with an On-Demand price at least as high as any that is known; None without any.

    Without a price in the region it is the dearest of the type in any region; without that, the dearest of a vCPU of
    its family.

    Args:
        region: None where the stack does not name it.
        cpus: vCPUs of a type; None where they are not known.
        gpus: See `machine`.
    """
    found = machine(cloud, region, type, gpus=gpus) if region else None
    if found is not None and found.on_demand is not None:
        return found
    elsewhere = _anywhere(cloud, type, gpus) or _of_family(cloud, type, cpus, gpus)
    if found is None or elsewhere is None:
        return elsewhere or found
    return replace(found, on_demand=elsewhere.on_demand)


@cache
def _anywhere(cloud: str, type: str, gpus: int) -> MachinePrice | None:  # noqa: A002
    known = [found for region in covered(cloud) if (found := on_demand(cloud, region, type, gpus=gpus))]
    top = max(known, key=lambda each: each.usd, default=None)
    return top and MachinePrice(top.usd, None, top.as_of, f"the dearest region of {top.source}")


def _of_family(cloud: str, type: str, cpus: Callable[[str], int | None], gpus: int) -> MachinePrice | None:  # noqa: A002
    """By the vCPUs of a type, at the dearest vCPU of its family."""
    family, own = re.split(r"[.-]", type)[0], cpus(type)
    usd, top = 0.0, None
    for other in types(cloud) if own else ():
        found = _anywhere(cloud, other, gpus) if re.split(r"[.-]", other)[0] == family else None
        if found and found.on_demand is not None and (size := cpus(other)) and found.on_demand / size > usd:
            usd, top = found.on_demand / size, found
    return top and replace(top, on_demand=usd * (own or 0))
