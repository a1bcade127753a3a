"""What is known of a queue's machine families, and of those that could join them.

Prices, reclaims, and what is sold where come from the dated tables of the package, and where a cloud has just been
asked, from its answer. What neither has is None: it is unknown, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from components import machines
from components.config import Queue
from tidemill import capacity, prices
from tidemill.advice.sources import LiveAnswer, PlacementScore
from tidemill.machines import MachineType
from tidemill.prices import SpotRange
from tidemill.prices.origin import Dated


@dataclass(frozen=True)
class Span:
    """The least and the most."""

    low: float
    high: float


@dataclass(frozen=True)
class Family:
    """A family with the sizes of a queue.

    Attributes:
        types: Those that the queue would start and that an item fits on.
        spot: USD per hour and item, when machines are full; None where no type's price is known.
        on_demand: The same.
        reclaimed: Percent of machines that were taken away, of the calmest and of the worst type whose figure is known.
        missing: Types of the queue's sizes that the region does not sell.
    """

    name: str
    types: tuple[MachineType, ...]
    spot: Span | None = None
    on_demand: Span | None = None
    reclaimed: Span | None = None
    missing: tuple[str, ...] = ()


@dataclass
class Book:
    """Every figure of a region, and which of them were used."""

    cloud: str
    region: str
    live: LiveAnswer = field(default_factory=LiveAnswer)
    used: list[Dated] = field(default_factory=list)

    def family(self, name: str, queue: Queue) -> Family:
        """What is known of a family, in the sizes of a queue and for its items."""
        wanted = queue.model_copy(update={"machines": queue.machines.model_copy(update={"families": [name]})})
        types = wanted.types(self.cloud)
        fit = tuple(each for each in types if capacity.slots(self.cloud, each, queue.item))
        spot = [(each, price) for each in fit if (price := self._spot(each))]
        fixed = [(each, price) for each in fit if (price := self._on_demand(each))]
        return Family(
            name,
            fit,
            _span(self._per_item(each, queue, side) for each, price in spot for side in (price.low, price.high)),
            _span(self._per_item(each, queue, price) for each, price in fixed),
            self._reclaimed(fit),
            tuple(each.type for each in types if self._sold(each) is False),
        )

    def score(self, *, zones: bool = False) -> Sequence[PlacementScore]:
        """The live scores of the region, or of its zones, the best first."""
        found = [each for each in self.live.scores if each.region == self.region and bool(each.zone) is zones]
        return sorted(found, key=lambda each: (-each.value, each.zone or ""))

    def _per_item(self, machine: MachineType, queue: Queue, usd: float) -> float:
        return usd / capacity.slots(self.cloud, machine, queue.item)

    def _spot(self, machine: MachineType) -> SpotRange | None:
        now = [each for each in self.live.prices if each.type == machine.type and each.region == self.region]
        known = [each.value for each in now if each.value is not None]
        if known:
            oldest = min(now, key=lambda each: each.at)
            return self._use(SpotRange(min(known), max(known), oldest.as_of, oldest.source))
        price = prices.machine(self.cloud, self.region, machine.type, gpus=machine.gpus)
        return self._use(price.spot) if price and price.spot else None

    def _on_demand(self, machine: MachineType) -> float | None:
        price = prices.machine(self.cloud, self.region, machine.type, gpus=machine.gpus)
        if price is None or price.on_demand is None:
            return None
        self._use(price)
        return price.on_demand

    def _reclaimed(self, types: Iterable[MachineType]) -> Span | None:
        found = [prices.interruption(self.cloud, self.region, each.type) for each in types]
        known = [self._use(each) for each in found if each]
        return Span(min(each.low for each in known), max(each.high for each in known)) if known else None

    def _sold(self, machine: MachineType) -> bool | None:
        if any(each.type == machine.type and not each.value for each in self.live.offered):
            return False
        found = prices.offering(self.cloud, self.region, machine.type)
        return self._use(found) and bool(found.zones) if found else None

    def _use(self, figure):
        self.used.append(figure)
        return figure


def _span(values: Iterable[float]) -> Span | None:
    found = list(values)
    return Span(min(found), max(found)) if found else None


def known_families(cloud: str) -> list[str]:
    """The families that a stack may name."""
    return [*machines.families(cloud)]
