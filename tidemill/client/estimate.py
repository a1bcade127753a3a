"""What a job would take and cost, before it is sent: from its items, how long one takes, and the queue's machines."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

from tidemill import capacity
from tidemill.chain import SCHEME
from tidemill.client.consumption import read_sample
from tidemill.client.items import open_items
from tidemill.client.job import Job
from tidemill.client.job_items import References, items_of
from tidemill.client.place import Placement, choose_queue, find_place
from tidemill.client.site import Site
from tidemill.descriptor import Descriptor
from tidemill.errors import CallerError
from tidemill.job import Item
from tidemill.ledger import Ledger
from tidemill.money import MarketCost, job_cost
from tidemill.prices import PriceOrigin

Items = int | str | Path | Iterable[str | Path | Item]


@dataclass(frozen=True)
class JobEstimate:
    """What a job would take and cost; `estimate --json`.

    Attributes:
        queue: Where it would run.
        items: Items of the job.
        item_seconds: How long an item takes in its slot.
        learnt_from: The job that this was learnt from; None where it was given.
        cpus: CPUs of an item.
        core_hours: CPUs that are held, for how long: items, times their seconds, times their CPUs.
        at_once_low: Items side by side with the queue at full capacity, on the machines that hold fewest.
        at_once_high: The same on the machines that hold most.
        hours_low: Wall time with the queue at full capacity and to itself, with the most side by side.
        hours_high: The same with the fewest.
        markets: What the queue's ladder has, in its order.
        spot: What it costs if all of it runs on Spot, in USD.
        on_demand: What it costs if all of it runs on On-Demand machines, in USD.
        as_of: Date of the oldest price in it; None where no price is known.
        sources: Where the prices come from.
    """

    queue: str
    items: int
    item_seconds: float
    learnt_from: str | None
    cpus: float
    core_hours: float
    at_once_low: int
    at_once_high: int
    hours_low: float
    hours_high: float
    markets: list[Literal["spot", "on_demand"]]
    spot: MarketCost
    on_demand: MarketCost
    as_of: str | None
    sources: list[str]

    @property
    def origin(self) -> PriceOrigin | None:
        """Where the prices come from; None where none is known."""
        return PriceOrigin(date.fromisoformat(self.as_of), tuple(self.sources)) if self.as_of else None


@dataclass(frozen=True)
class Wanted:
    """What a caller asks about; see `Pipeline.estimate`."""

    items: Items | None
    items_format: str | None
    items_column: str | None
    item_seconds: float | None
    like: str | None
    queue: str | None
    needs: dict[str, float | int | None]
    slots: int | None


def estimate(site: Site, wanted: Wanted) -> JobEstimate:
    """See `Pipeline.estimate`."""
    like = None if wanted.like is None else Job.find(site, wanted.like)
    place = _place(site.descriptor, wanted, like, site.whole_cpus)
    seconds = _seconds(site, wanted.item_seconds, like)
    count = _count(site, wanted, like)
    low, high = at_once(site.descriptor.cloud, place)
    descriptor, item = site.descriptor, place.resources
    cost = job_cost(place.queue, descriptor.cloud, descriptor.region, count * seconds, item=item, container=place.slots)
    return JobEstimate(
        queue=place.queue_name,
        items=count,
        item_seconds=round(seconds, 3),
        learnt_from=like.id if like and wanted.item_seconds is None else None,
        cpus=item.cpus,
        core_hours=round(count * seconds * item.cpus / 3600, 3),
        at_once_low=low,
        at_once_high=high,
        hours_low=_hours(count, high, seconds),
        hours_high=_hours(count, low, seconds),
        markets=list(dict.fromkeys(rung.market for rung in place.queue.capacity)),
        spot=cost.spot,
        on_demand=cost.on_demand,
        as_of=cost.as_of.isoformat() if cost.as_of else None,
        sources=cost.sources,
    )


def at_once(cloud: str, place: Placement) -> tuple[int, int]:
    """Items side by side with a queue at full capacity: on the machines that hold fewest and most of them.

    On AWS a later rung is overflow, so all of them count. On GCP it opens when the first has run dry: the first counts.
    """
    rungs = place.queue.capacity if cloud == "aws" else place.queue.capacity[:1]
    found = [
        slots * sum(capacity.most_machines(cloud, rung.max_cpus, machine.cpus) for rung in rungs)
        for machine in place.queue.machines
        if (slots := capacity.slots(cloud, machine, place.resources, place.slots))
    ]
    return min(found), max(found)


def _place(descriptor: Descriptor, wanted: Wanted, like: Job | None, whole_cpus: bool) -> Placement:
    name = choose_queue(descriptor, wanted.queue or (like.spec.queue if like else None))
    needs = dict(wanted.needs)
    if like:
        learnt = like.spec.resources.model_dump()
        needs = {key: learnt[key] if needs.get(key) is None else needs[key] for key in learnt}
    return find_place(
        descriptor,
        queue=name,
        image=next(iter(descriptor.queues[name].images)),
        needs=needs,
        slots=wanted.slots or (like.spec.slots if like else 1),
        whole_cpus=whole_cpus,
    )


def _seconds(site: Site, given: float | None, like: Job | None) -> float:
    if given is not None:
        if not math.isfinite(given) or given <= 0:
            raise CallerError.about("item_seconds", given, "more than 0", "State how long an item takes.")
        return given
    if like is None:
        raise CallerError(
            "item_seconds is not given.",
            "State how long an item takes, or name a job to learn it from.",
            what="item_seconds",
        )
    ledger = Ledger(site.store, like.id)
    ran, _ = read_sample(ledger, ledger.listing())
    if not ran:
        raise CallerError(
            f"like is {like.id!r}, and no item of it has run yet.", "Wait for one, or state item_seconds.", what="like"
        )
    return sum(outcome.wall_seconds for outcome in ran) / len(ran)


def _count(site: Site, wanted: Wanted, like: Job | None) -> int:
    items = wanted.items
    if items is None:
        if like is None:
            raise CallerError("items is not given.", "Give a number of items, or the items themselves.", what="items")
        return like.spec.items_total
    if isinstance(items, str) and items.startswith(SCHEME):
        return len(items_of(items, References(site)))
    if not isinstance(items, int):
        stores = site.stores()
        source = open_items(items, form=wanted.items_format, column=wanted.items_column, stores=stores)
        items = sum(len(block.uris) for block in source)
    if items < 1:
        raise CallerError.about("items", items, "at least 1", "Give a number of items, or the items themselves.")
    return items


def _hours(items: int, at_once: int, seconds: float) -> float:
    return round(math.ceil(items / at_once) * seconds / 3600, 4)
