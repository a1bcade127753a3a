"""Figures of a queue's machine families, and of those that could join them.

Prices, reclaims and offerings come from the dated tables of the package, and where a cloud has just been asked, from
its answer. A figure that neither has is None: it is unknown, and decides nothing.
"""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass, field

from components.config import Queue
from tidemill import capacity, prices, services
from tidemill.advice.shapes import type_name
from tidemill.advice.sources import LiveAnswer, PlacementScore
from tidemill.machines import MachineType
from tidemill.prices import SpotRange
from tidemill.prices.origin import DatedPrice


@dataclass(frozen=True)
class Span:
    """The least and the most."""

    low: float
    high: float


LOW_SCORE = 3
"""Of 10. A request that scores as low is unlikely to succeed."""
LOW_OBTAINABILITY = 0.4
"""Source: https://docs.cloud.google.com/compute/docs/instances/view-vm-availability"""


@dataclass(frozen=True)
class Chance:
    """How likely Spot machines are to be there.

    Attributes:
        told: The figure, as the cloud names it.
        low: Whether they are unlikely to be.
    """

    told: str
    low: bool
    at: datetime.datetime
    source: str

    def __str__(self) -> str:
        return f"{self.told} ({self.at:%Y-%m-%d %H:%M} UTC, {self.source})"


@dataclass(frozen=True)
class Family:
    """A family with the sizes of a queue.

    Attributes:
        types: Those that the queue would start and that an item fits on.
        spot: USD per hour and item, when machines are full; None where no type's price is known.
        on_demand: The same.
        reclaimed: Percent of machines that were taken away, of the calmest and of the worst type whose figure is known.
        missing: Types of the queue's sizes that the region does not sell.
        cpu_on_demand: USD per vCPU and hour, On-Demand.
    """

    name: str
    types: tuple[MachineType, ...]
    spot: Span | None = None
    on_demand: Span | None = None
    reclaimed: Span | None = None
    missing: tuple[str, ...] = ()
    cpu_on_demand: Span | None = None


@dataclass
class Book:
    """Every figure of a region, and which of them were used.

    Attributes:
        live: What the cloud said of the queue's own types.
        wide: What it said of those and of all that the queue could have.
        zoned: AWS: what it said of the queue's own types if all machines are in one zone.
    """

    cloud: str
    region: str
    live: LiveAnswer = field(default_factory=LiveAnswer)
    wide: LiveAnswer = field(default_factory=LiveAnswer)
    zoned: LiveAnswer = field(default_factory=LiveAnswer)
    used: list[DatedPrice] = field(default_factory=list)

    def family(self, name: str, queue: Queue) -> Family:
        """Figures of a family, in the sizes of a queue and for its items."""
        wanted = queue.model_copy(update={"machines": queue.machines.model_copy(update={"families": [name]})})
        types = wanted.types(self.cloud)
        fit = tuple(each for each in types if capacity.slots(services.of_cloud(self.cloud), each, queue.item))
        spot = [(each, price) for each in fit if (price := self._spot(each))]
        fixed = [(each, price) for each in fit if (price := self._on_demand(each))]
        return Family(
            name,
            fit,
            _span(self._per_item(each, queue, side) for each, price in spot for side in (price.low, price.high)),
            _span(self._per_item(each, queue, price) for each, price in fixed),
            self._reclaimed(fit),
            tuple(each.type for each in types if self._sold(each) is False),
            _span(price / each.cpus for each, price in fixed),
        )

    def chances(self, *, wide: bool = False) -> Chance | None:
        """How likely Spot machines are to be there now; None where the cloud did not say.

        Args:
            wide: With every family that the queue could name.
        """
        answer = self.wide if wide else self.live
        for score in answer.scores:
            if score.region == self.region and score.zone is None:
                told = f"{score.value} of 10"
                return Chance(told, score.value <= LOW_SCORE, score.at, score.source)
        for advice in answer.capacity:
            if advice.region == self.region and advice.value is not None:
                told = f"obtainability {advice.value:g}"
                return Chance(told, advice.value < LOW_OBTAINABILITY, advice.at, advice.source)
        return None

    def _per_item(self, machine: MachineType, queue: Queue, usd: float) -> float:
        return usd / capacity.slots(services.of_cloud(self.cloud), machine, queue.item)

    def zones(self) -> list[PlacementScore]:
        """The scores of single zones, the best first."""
        scores = [each for each in self.zoned.scores if each.region == self.region and each.zone]
        return sorted(scores, key=lambda each: (-each.value, each.zone or ""))

    def has_spot_price(self, machine: MachineType) -> bool:
        price = prices.machine(self.cloud, self.region, machine.type, gpus=machine.gpus)
        return bool(price and price.spot)

    def shortfalls(self, cpus: int) -> tuple[str, ...]:
        """The account's quotas on Spot that are smaller than so many vCPUs."""
        return tuple(
            f"The account may run {each.value:g} vCPUs of class {each.kind} on Spot, and the queue asks for up to "
            f"{cpus} ({each.at:%Y-%m-%d}, {each.source})."
            for each in self.live.quotas
            if each.market == "spot" and each.value is not None and each.value < cpus
        )

    def _spot(self, machine: MachineType) -> SpotRange | None:
        named = type_name(machine)
        now = [each for each in self.wide.prices if each.type == named and each.region == self.region]
        values = [each.value for each in now if each.value is not None]
        if values:
            oldest = min(now, key=lambda each: each.at)
            return self._use(SpotRange(min(values), max(values), oldest.as_of, oldest.source))
        price = prices.machine(self.cloud, self.region, machine.type, gpus=machine.gpus)
        return self._use(price.spot) if price and price.spot else None

    def _on_demand(self, machine: MachineType) -> float | None:
        price = prices.on_demand(self.cloud, self.region, machine.type, gpus=machine.gpus)
        return self._use(price).usd if price else None

    def _reclaimed(self, types: Iterable[MachineType]) -> Span | None:
        """On AWS machines of a month, by the published bucket; on GCP machines that stopped, by the last days' mean."""
        types = list(types)
        interruptions = [prices.interruption(self.cloud, self.region, each.type) for each in types]
        published = [self._use(each) for each in interruptions if each]
        names = {type_name(each) for each in types}
        rates = [each for each in self.wide.reclaims if each.type in names and each.region == self.region]
        spans = [(float(each.low), float(each.high)) for each in published]
        spans += [(100 * value, 100 * value) for each in rates if (value := self._use(each).value) is not None]
        return Span(min(low for low, _ in spans), max(high for _, high in spans)) if spans else None

    def _sold(self, machine: MachineType) -> bool | None:
        if any(each.type == machine.type and not each.value for each in self.wide.offered):
            return False
        offering = prices.offering(self.cloud, self.region, machine.type)
        return self._use(offering) and bool(offering.zones) if offering else None

    def _use(self, figure):
        self.used.append(figure)
        return figure


def _span(values: Iterable[float]) -> Span | None:
    figures = list(values)
    return Span(min(figures), max(figures)) if figures else None
