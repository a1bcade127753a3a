"""What work on a queue's machines costs, from the dated price table: low and high, Spot and On-Demand.

Counted is the share of a machine, and of its disk, that an item holds while it runs. docs/money.md lists what is billed
beside that.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tidemill import prices
from tidemill.descriptor import Machine, Queue, Resources

Market = Literal["spot", "on_demand"]


@dataclass(frozen=True)
class MarketCost:
    """What work costs on one market, in USD.

    Attributes:
        low: On the machine that is cheapest for it; None where the price of no machine is known.
        high: On the machine that is dearest for it.
        unknown: Machine types that could run it too and whose price is unknown; low and high leave them out.
    """

    low: float | None
    high: float | None
    unknown: list[str]


@dataclass(frozen=True)
class CostRange:
    """What work costs, whichever machines of its queue it gets.

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


@dataclass(frozen=True)
class _Able:
    """A machine that can run the work: how many items at a time, and what it costs."""

    machine: Machine
    slots: int
    price: prices.MachinePrice | None


def job_cost(
    queue: Queue, cloud: str, region: str, item_seconds: float, *, item: Resources | None = None, container: int = 1
) -> CostRange:
    """What so many seconds of items cost on a queue.

    Args:
        queue: The queue, as the descriptor has it.
        cloud: `aws` or `gcp`; of `local` no price is known.
        region: The cloud's.
        item_seconds: Wall-clock seconds in slots, of all items and all their attempts together.
        item: What an item is given; None for what the queue gives.
        container: AWS: items that share a container.
    """
    able = [
        _Able(machine, slots, prices.machine(cloud, region, machine.type, gpus=machine.gpus))
        for machine in queue.machines
        if (slots := machine.slots(item or queue.item, container))
    ]
    disk = prices.service(cloud, region, "disk_gib_month")
    disk_hour = queue.scratch_gib * disk.usd / prices.HOURS_A_MONTH if disk else 0.0
    known = [each.price for each in able if each.price]
    dates = [price.as_of for price in known] + ([disk.as_of] if disk and known else [])
    return CostRange(
        _spot(able, item_seconds / 3600, disk_hour),
        _on_demand(able, item_seconds / 3600, disk_hour),
        min(dates, default=None),
        list(dict.fromkeys(price.source for price in known)),
    )


def _spot(able: Sequence[_Able], hours: float, disk_hour: float) -> MarketCost:
    known = [(each, each.price.spot) for each in able if each.price and each.price.spot]
    low = [(spot.low + disk_hour) / each.slots * hours for each, spot in known]
    high = [(spot.high + disk_hour) / each.slots * hours for each, spot in known]
    unknown = [each.machine.type for each in able if not (each.price and each.price.spot)]
    return MarketCost(min(low, default=None), max(high, default=None), unknown)


def _on_demand(able: Sequence[_Able], hours: float, disk_hour: float) -> MarketCost:
    known = [(each, each.price.on_demand) for each in able if each.price and each.price.on_demand is not None]
    usd = [(hourly + disk_hour) / each.slots * hours for each, hourly in known]
    unknown = [each.machine.type for each in able if not (each.price and each.price.on_demand is not None)]
    return MarketCost(min(usd, default=None), max(usd, default=None), unknown)
