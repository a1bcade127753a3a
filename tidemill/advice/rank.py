"""Ranks shapes by what the work costs on them: facts in, rows in their order out. Pure, and it reads nothing."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tidemill.advice.reclaim_cost import paid_hours, young
from tidemill.advice.shapes import MachineShape
from tidemill.advice.sources import Range

MILLION = 1_000_000
SAVE_SECONDS = 60.0
"""How long a save is assumed to take if the caller does not say."""
RESTART_SECONDS = 180.0
"""Assumed time until a new machine goes on with the work: its start, the worker's, and the state's."""


@dataclass(frozen=True)
class DatedFigure:
    """A number that knows when and where it comes from."""

    value: float
    as_of: datetime.date
    source: str


@dataclass(frozen=True)
class ReclaimMean(DatedFigure):
    """The mean time between two reclaims of a machine, in hours.

    Attributes:
        basis: `own` attempts of enough machine-hours, or the `bucket` that AWS publishes.
    """

    basis: Literal["own", "bucket"]


@dataclass(frozen=True)
class ShapeScore(DatedFigure):
    """How likely Spot machines are to be there now, `value` out of `of`: AWS counts to 10, GCP to 1."""

    of: float

    @property
    def part(self) -> float:
        """From 0 to 1, to compare."""
        return self.value / self.of


@dataclass(frozen=True)
class Price:
    """Price of one machine in USD per hour.

    Attributes:
        now: The newest price; where zones differ, that of the dearest.
        low: The lowest in the time that was looked at, of all zones.
        high: The highest.
        days: How far back that goes; None where the source does not say.
        week: The same of the last 7 days; None where it is unknown.
    """

    now: float
    low: float
    high: float
    days: float | None
    as_of: datetime.date
    source: str
    week: Range | None = None


@dataclass(frozen=True)
class Bucket:
    """How many of a type's Spot machines are taken away in a month, in percent; `high` is 100 where it has no bound."""

    low: int
    high: int
    as_of: datetime.date
    source: str


@dataclass(frozen=True)
class ShapeFacts:
    """Facts about a shape. None is unknown.

    Attributes:
        price: Of one machine on the shape's market.
        bucket: What AWS publishes of interruptions.
        reclaimed_part: The part of a type's stopped Spot machines that GCP had reclaimed, from 0 to 1.
        uptime: Seconds that GCP expects most of the machines to run at least; it never says more than an hour, so that
            no mean follows from it.
        items_per_second: Measured throughput of one machine.
    """

    shape: MachineShape
    price: Price | None = None
    score: ShapeScore | None = None
    bucket: Bucket | None = None
    reclaimed_part: DatedFigure | None = None
    uptime: DatedFigure | None = None
    reclaims: ReclaimMean | None = None
    items_per_second: DatedFigure | None = None


@dataclass(frozen=True)
class Work:
    """The work that machines are wanted for.

    Attributes:
        units: GPUs, else vCPUs, else GiB of memory that were asked for; 0 for the GPUs or else vCPUs of each shape.
        hours: How long all machines work.
        save_seconds: How long saving the state takes.
        restart_seconds: From a machine's start until it goes on with the work.
        item_seconds: How long an item without state takes, whose end is what saves work; None where work can be saved
            at any moment.
    """

    units: float = 0.0
    hours: float = 1.0
    save_seconds: float = SAVE_SECONDS
    restart_seconds: float = RESTART_SECONDS
    item_seconds: float | None = None


@dataclass(frozen=True)
class RankedShape:
    """A shape, what is known of it, and what follows from that. None is unknown.

    Attributes:
        usd_hour: All machines, per hour.
        usd_unit_hour: The same, divided by the work's units.
        usd_million: A million items at the measured speed, with what reclaims cost.
        usd_total: All machines for the hours of work, with what reclaims cost.
        at_least: Whether the last two leave reclaims out, because it is unknown how frequent they are.
        save_every_seconds: The best interval between saves; None also where no machine is taken away.
    """

    facts: ShapeFacts
    usd_hour: DatedFigure | None
    usd_unit_hour: DatedFigure | None
    usd_million: DatedFigure | None
    usd_total: DatedFigure | None
    at_least: bool
    save_every_seconds: DatedFigure | None


def rank(shapes: Iterable[ShapeFacts], work: Work) -> list[RankedShape]:
    """Shapes in their order: by the cost of a million items where it is measured; the others follow by the cost of a
    GPU-hour (or vCPU-hour); last those without a price. Among equals, a higher score comes first, an unknown one last,
    then fewer machines.
    """
    return sorted((reckoned(facts, work) for facts in shapes), key=_order)


def reckoned(facts: ShapeFacts, work: Work) -> RankedShape:
    """Work out the row of one shape from its facts."""
    shape, price = facts.shape, facts.price
    spot = shape.market == "spot"
    mean = facts.reclaims if spot else None
    every = derived(young(work.save_seconds, mean.value), mean) if mean else None
    if price is None:
        return RankedShape(facts, None, None, None, None, spot and mean is None, every)
    used = (price, mean) if mean else (price,)
    usd_hour = shape.count * price.now
    units = work.units or shape.gpus or shape.cpus
    speed = facts.items_per_second
    return RankedShape(
        facts=facts,
        usd_hour=derived(usd_hour, price),
        usd_unit_hour=derived(usd_hour / units, price),
        usd_million=derived(_million(price, speed, work, mean), speed, *used) if speed else None,
        usd_total=derived(usd_hour * _paid(work, work.hours, mean), *used),
        at_least=spot and mean is None,
        save_every_seconds=every,
    )


def derived(value: float, *origins: DatedFigure | Price) -> DatedFigure:
    """A figure that was reckoned from others: as old as the oldest, from all their sources."""
    sources = dict.fromkeys(source for each in origins for source in each.source.split("; "))
    return DatedFigure(value, min(each.as_of for each in origins), "; ".join(sources))


def _million(price: Price, speed: DatedFigure, work: Work, mean: ReclaimMean | None) -> float:
    """A million items, of work that goes on for many intervals between saves."""
    hours = _interval(work, mean) / 3600 if mean else 1.0
    return price.now / 3600 / speed.value * MILLION * _paid(work, hours, mean) / hours


def _interval(work: Work, mean: ReclaimMean) -> float:
    """Seconds of work that a reclaim loses at most."""
    return work.item_seconds or young(work.save_seconds, mean.value)


def _paid(work: Work, hours: float, mean: ReclaimMean | None) -> float:
    """Hours that are paid for on one machine; the hours of work where nothing is known of reclaims."""
    if mean is None:
        return hours
    return paid_hours(
        hours,
        mean.value,
        interval_seconds=_interval(work, mean),
        save_seconds=0.0 if work.item_seconds else work.save_seconds,
        restart_seconds=work.restart_seconds,
    )


def _order(row: RankedShape) -> tuple[object, ...]:
    group = 0 if row.usd_million else 1 if row.usd_unit_hour else 2
    cost = (row.usd_million or row.usd_unit_hour or _NOTHING).value
    score, shape = row.facts.score, row.facts.shape
    # Costs that differ by rounding alone are equal.
    return (group, float(f"{cost:.9g}"), -score.part if score else math.inf, shape.count, shape.key)


_NOTHING = DatedFigure(0.0, datetime.date.min, "")
