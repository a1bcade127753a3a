"""Estimates a job's time and cost before it is sent: from its items, their duration, and the queue's machines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from numbers import Real
from typing import Literal

from tidemill import capacity, services
from tidemill.chain import SCHEME
from tidemill.client.arguments import in_units
from tidemill.client.estimate.request import EstimateRequest, Items
from tidemill.client.items.open_items import open_items
from tidemill.client.journal import find_spec
from tidemill.client.plan.place import Placement, choose_queue, find_place
from tidemill.client.report.consumption import read_sample
from tidemill.client.rounds.job_uris import References, items_of
from tidemill.client.site import Site
from tidemill.errors import CallerError
from tidemill.job import JobSpec
from tidemill.ledger import Ledger
from tidemill.money import MarketCost, job_cost
from tidemill.prices import PriceOrigin
from tidemill.request import JobRequest


@dataclass(frozen=True)
class JobEstimate:
    """Expected time and cost of a job; the document of `estimate --json`.

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
        markets: Markets of the queue's rungs, in their order.
        spot: Cost if all of it runs on Spot, in USD.
        on_demand: Cost if all of it runs on On-Demand machines, in USD.
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


def estimate(site: Site, asked: EstimateRequest) -> JobEstimate:
    """See `Pipeline.estimate`."""
    items, job = asked.items, None if asked.like is None else find_spec(site.store, asked.like)
    given = {name: value for name, value in vars(asked).items() if name not in ("items", "like") and value is not None}
    if job:
        learnt = {"queue": job.queue, "slots": job.slots, **job.resources.model_dump()}
        given = {**learnt, **({"memory_mib": None} if "memory" in given else {}), **given}
    queue = choose_queue(site.descriptor, given.get("queue"))
    image = next(iter(site.descriptor.queues[queue].images))
    listed = () if items is None or isinstance(items, int) else items
    request = in_units(JobRequest(None, listed, image=image, **given))
    place = find_place(site.descriptor, request)
    seconds = _seconds(site, request.item_seconds, job)
    count = _count(site, request, job, items)
    return estimate_place(site, place, count, seconds, job.job if job and request.item_seconds is None else None)


def estimate_place(
    site: Site, place: Placement, count: int, seconds: float, learnt_from: str | None = None
) -> JobEstimate:
    """Time and cost of so many items, each of so many seconds, in their place."""
    low, high = at_once(site.descriptor.cloud, place)
    descriptor, item = site.descriptor, place.resources
    cost = job_cost(place.queue, descriptor.cloud, descriptor.region, count * seconds, item=item, container=place.slots)
    return JobEstimate(
        queue=place.queue_name,
        items=count,
        item_seconds=round(seconds, 3),
        learnt_from=learnt_from,
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

    Where a later rung is overflow, all of them count. Where it opens when the first has run dry, the first counts.
    """
    service = services.of_queue(cloud, place.queue)
    rungs = place.queue.capacity if service.overflow else place.queue.capacity[:1]
    fits = [
        slots * sum(capacity.most_machines(service, rung.max_cpus, machine.cpus) for rung in rungs)
        for machine in place.queue.machines
        if (slots := capacity.slots(service, machine, place.resources, place.slots))
    ]
    return min(fits), max(fits)


def _seconds(site: Site, given: float | None, like: JobSpec | None) -> float:
    if given is not None:
        if not isinstance(given, Real) or not math.isfinite(given) or given <= 0:
            raise CallerError.about("item_seconds", given, "a number above 0", "State how long an item takes.")
        return given
    if like is None:
        raise CallerError(
            "item_seconds is not given.",
            "State how long an item takes, or name a job to learn it from.",
            what="item_seconds",
        )
    ledger = Ledger(site.store, like.job)
    ran, _ = read_sample(ledger, ledger.listing())
    if not ran:
        raise CallerError(
            f"like is {like.job!r}, and no item of it has run yet.", "Wait for one, or state item_seconds.", what="like"
        )
    return sum(outcome.wall_seconds for outcome in ran) / len(ran)


def _count(site: Site, request: JobRequest, like: JobSpec | None, items: Items | None) -> int:
    if items is None:
        if like is None:
            raise CallerError("items is not given.", "Give a number of items, or the items themselves.", what="items")
        return like.items_total
    if isinstance(items, str) and items.startswith(SCHEME):
        return len(items_of(items, References(site)))
    if not isinstance(items, int):
        stores = site.stores()
        source = open_items(items, form=request.items_format, column=request.items_column, stores=stores)
        items = sum(len(block.uris) for block in source)
    if items < 1:
        raise CallerError.about("items", items, "at least 1", "Give a number of items, or the items themselves.")
    return items


def _hours(items: int, at_once: int, seconds: float) -> float:
    return round(math.ceil(items / at_once) * seconds / 3600, 4)
