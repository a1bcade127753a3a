"""A price for a limit: where none is known in a region, the dearest that is known elsewhere, never zero."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

from tidemill.machines import cpus_of
from tidemill.prices.table import MachinePrice, covered, machine, on_demand, types


def at_most(cloud: str, region: str | None, type: str, *, gpus: int = 0) -> MachinePrice | None:  # noqa: A002
    """The price of a machine, with an On-Demand price at least as high as any that is known; None without any.

    Without a price in the region it is the dearest of the type in any region; without that, the dearest of a vCPU of
    its family.

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
    priced = [price for region in covered(cloud) if (price := on_demand(cloud, region, type, gpus=gpus))]
    top = max(priced, key=lambda each: each.usd, default=None)
    return top and MachinePrice(top.usd, None, top.as_of, f"the dearest region of {top.source}")


def _of_family(cloud: str, type: str, gpus: int) -> MachinePrice | None:  # noqa: A002
    """By the vCPUs of a type, at the dearest vCPU of its family."""
    family, own = re.split(r"[.-]", type)[0], cpus_of(cloud, type)
    usd, top = 0.0, None
    for other in types(cloud) if own else ():
        price = _anywhere(cloud, other, gpus) if re.split(r"[.-]", other)[0] == family else None
        if price and price.on_demand is not None and (size := cpus_of(cloud, other)) and price.on_demand / size > usd:
            usd, top = price.on_demand / size, price
    return top and replace(top, on_demand=usd * (own or 0))
