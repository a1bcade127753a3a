"""Cost of work on a queue's machines, from the dated price table: low and high, Spot and On-Demand.

It counts the share of a machine, and of its disk, that an item holds while it runs. docs/money.md lists what is billed
in addition.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from tidemill import capacity, prices, services
from tidemill.descriptor import Machine, Queue, Resources


@dataclass(frozen=True)
class MarketCost:
    """Cost of work on one market, in USD.

    Attributes:
        low: On the machine that is cheapest for it; None where the price of no machine is known.
        high: On the machine that is most expensive for it.
        unknown: Machine types that could run it too and whose price there is unknown. On Spot low and high take them at
            their On-Demand price, which Spot never exceeds, or at the queue's cap on it; what has no price at all is
            left out.
    """

    low: float | None
    high: float | None
    unknown: list[str]


@dataclass(frozen=True)
class CostRange:
    """Cost of work, whichever machines of its queue it gets.

    Attributes:
        spot: On Spot.
        on_demand: On On-Demand machines.
        as_of: Date of the oldest price in it; None when there is none.
        sources: Where the prices come from.
    """

    spot: MarketCost
    on_demand: MarketCost
    as_of: datetime.date | None
    sources: list[str]

    @property
    def origin(self) -> prices.PriceOrigin | None:
        """Where the prices come from; None when there are none."""
        return prices.PriceOrigin(self.as_of, tuple(self.sources)) if self.as_of else None


@dataclass(frozen=True)
class _Candidate:
    """A machine that can run the work: how many items at a time, and what it costs."""

    machine: Machine
    slots: int
    price: prices.MachinePrice | None


def job_cost(
    queue: Queue,
    cloud: str,
    region: str,
    item_seconds: float,
    *,
    item: Resources | None = None,
    container: int = 1,
    at_most: bool = False,
) -> CostRange:
    """Estimate the cost of so many seconds of items on a queue.

    Args:
        queue: The queue, as the descriptor has it.
        cloud: Its cloud. Of `local` no price is known.
        region: The cloud's.
        item_seconds: Wall-clock seconds in slots, of all items and all their attempts together.
        item: Resources of an item; None for the queue's.
        container: Items that share a container, where the job sizes it.
        at_most: For a limit: count a machine without a price in the region at the dearest known elsewhere.
    """
    service, price = services.of_queue(cloud, queue), prices.at_most if at_most else prices.machine
    able = [
        _Candidate(machine, slots, price(cloud, region, machine.type, gpus=machine.gpus))
        for machine in queue.machines
        if (slots := capacity.slots(service, machine, item or queue.item, container))
    ]
    disk = prices.service(cloud, region, "disk_gib_month")
    disk_hour = queue.billed_gib * disk.usd / prices.HOURS_A_MONTH if disk else 0.0
    priced = [each.price for each in able if each.price]
    used = prices.origin([*priced, disk] if priced else [])
    return CostRange(
        _on("spot", able, item_seconds / 3600, disk_hour, queue.most_percent),
        _on("on_demand", able, item_seconds / 3600, disk_hour),
        used and used.as_of,
        list(used.sources) if used else [],
    )


def _on(
    market: str, able: Sequence[_Candidate], hours: float, disk_hour: float, percent: int | None = None
) -> MarketCost:
    usd = [(each.slots, usd_hour) for each in able if (usd_hour := capacity.machine_usd(each.price, market, percent))]
    low, high = ([(usd_hour[side] + disk_hour) / slots * hours for slots, usd_hour in usd] for side in (0, 1))
    unknown = [each.machine.type for each in able if getattr(each.price, market, None) is None]
    return MarketCost(min(low, default=None), max(high, default=None), unknown)
