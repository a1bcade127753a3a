"""The expected cost of a job, which its spec keeps for the report."""

from __future__ import annotations

from tidemill.client.plan.place import Placement
from tidemill.client.site import Site
from tidemill.job import Expectation


def expected(site: Site, place: Placement, items: int, item_seconds: float | None) -> Expectation | None:
    """Expected time and cost of so many items, on the cheapest and the most expensive machines and rungs of a queue;
    None where the caller does not say how long an item takes."""
    if item_seconds is None:
        return None
    from tidemill.money import job_cost

    cloud, region = site.descriptor.cloud, site.descriptor.region
    cost = job_cost(place.queue, cloud, region, items * item_seconds, item=place.resources, container=place.slots)
    by_market = {"spot": cost.spot, "on_demand": cost.on_demand}
    markets = [by_market[rung.market] for rung in place.queue.capacity]
    low = min((one.low for one in markets if one.low is not None), default=None)
    high = max((one.high for one in markets if one.high is not None), default=None)
    return Expectation(
        item_seconds=item_seconds,
        usd_low=None if low is None else round(low, 4),
        usd_high=None if high is None else round(high, 4),
    )
