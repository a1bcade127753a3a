"""The one arithmetic of capacity: what a machine holds, how many machines a rung may start, what they cost per hour.

The stack's checks and resources, the client, the worker, the policy pack and reviews all ask here, so that none of them
accepts what another refuses. Everything is pure: sizes and prices in, numbers out. Memory is in MiB, money in USD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tidemill.prices import MachinePrice
    from tidemill.services import Service

WORKER_MIB = 96
"""Memory of the worker itself. On AWS it is part of what a container asks for; on GCP the machine keeps it back."""
_CPU_TOLERANCE = 0.01
"""Tenths of a CPU have no exact number, and a container's quota is rounded."""


class Amounts(Protocol):
    """CPUs, memory and GPUs: of a machine type, or those that an item needs."""

    @property
    def cpus(self) -> float:
        """Those of a machine are vCPUs, in whole numbers."""
        ...

    @property
    def memory_mib(self) -> int:
        """That of a machine is as its cloud states it."""
        ...

    @property
    def gpus(self) -> int:
        """Whole ones."""
        ...


def usable_memory_mib(service: Service, machine: Amounts) -> int:
    """Memory of a machine that items can have, in MiB; 0 where none is left. Rather too little than too much: an item
    that fits here must find a machine there (docs/cloud-facts.md, ADR 38)."""
    percent, mib = service.kept_back
    return max(0, machine.memory_mib * (100 - percent) // 100 - mib)


def slots(service: Service, machine: Amounts, item: Amounts, container: int = 1) -> int:
    """How many items run side by side on an empty machine; 0 where none fits.

    Args:
        service: The queue's.
        machine: Its type.
        item: What one item needs.
        container: Items that share a container, where the job sizes it; a machine takes whole containers only.
    """
    return fitting(machine.cpus, usable_memory_mib(service, machine), machine.gpus, item, container)


def fitting(cpus: float, memory_mib: float, gpus: int, item: Amounts, container: int = 1) -> int:
    """How many items fit into so many CPUs, GPUs and MiB of usable memory."""
    fits = [(cpus + _CPU_TOLERANCE) / item.cpus, memory_mib / item.memory_mib]
    if item.gpus:
        fits.append(gpus / item.gpus)
    return max(0, int(min(fits)) // container * container)


def more_memory_mib(memory_mib: int, most_mib: int) -> int | None:
    """Memory of the next attempt of an item that was killed for memory: twice as much, at most `most_mib`; None where
    it had that already."""
    return min(2 * memory_mib, most_mib) if memory_mib < most_mib else None


def most_machines(service: Service, max_cpus: int, cpus: int) -> int:
    """How many machines of `cpus` vCPUs a rung may start that may reach `max_cpus`.

    Where the last one may not exceed it, there are no more vCPUs than that as long as one machine has no more.
    """
    if service.one_machine:
        return 1
    return -(-max_cpus // cpus) if service.last_may_exceed else max(1, max_cpus // cpus)


@dataclass(frozen=True)
class UsdRange:
    """Cost of machines per hour: all of the cheapest type, all of the most expensive; None if no price is known.

    Both leave out the types whose price is `unknown`.
    """

    low: float | None
    high: float | None
    unknown: tuple[str, ...]


def machine_usd(
    price: MachinePrice | None, market: str | None, percent: int | None = None
) -> tuple[float, float] | None:
    """Price of a machine per hour, low and high; None where it is unknown.

    A Spot machine without a known Spot price counts as an On-Demand one, whose price it never exceeds.
    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/how-spot-instances-work.html

    Args:
        price: Of the machine's type.
        market: `spot` or `on_demand`.
        percent: The most to pay on Spot, in percent of the On-Demand price; None for no cap.
    """
    if price is None or market not in ("spot", "on_demand"):
        return None
    fixed = price.on_demand
    usd = (fixed, fixed) if fixed is not None else None
    if market == "spot":
        usd = (price.spot.low, price.spot.high) if price.spot else usd
        if usd and fixed is not None and percent is not None:
            return min(usd[0], fixed * percent / 100), min(usd[1], fixed * percent / 100)
    return usd


def fleet_usd(
    counts: Mapping[str, int],
    market: str | None,
    price: Callable[[str], MachinePrice | None],
    percent: int | None = None,
) -> UsdRange:
    """Cost of a fleet per hour when all its machines run and are of one type.

    Args:
        counts: How many there are of a type when all are of that type.
        market: `spot` or `on_demand`.
        price: Of a type; None where it is unknown.
        percent: See `machine_usd`.
    """
    usd = {kind: machine_usd(price(kind), market, percent) for kind in counts}
    fleets = [(counts[kind] * each[0], counts[kind] * each[1]) for kind, each in usd.items() if each]
    return UsdRange(
        min((low for low, _ in fleets), default=None),
        max((high for _, high in fleets), default=None),
        tuple(kind for kind, each in usd.items() if each is None),
    )
