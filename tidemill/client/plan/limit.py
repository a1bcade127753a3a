"""A job's cost limit, as its submitter sets it and `status` shows it. Workers enforce it by themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tidemill.client.plan.place import Placement
from tidemill.client.site import Log, Site
from tidemill.errors import CallerError
from tidemill.job import MAX_USD, CostLimit, JobSpec
from tidemill.ledger import Ledger, Round
from tidemill.ledger.spent_seconds import limit_of, spent_seconds

_HOUR = 3600


@dataclass(frozen=True)
class LimitUse:
    """A job's consumption of its limit. An estimate: docs/budgets.md says what it leaves out.

    Attributes:
        usd: USD written down until now.
        max_usd: The limit.
    """

    usd: float
    max_usd: float

    @property
    def reached(self) -> bool:
        return self.usd >= self.max_usd

    def words(self) -> str:
        """`about 12.30 of 50.00 USD`."""
        return f"about {self.usd:.2f} of {self.max_usd:.2f} USD"


def new_limit(
    site: Site, place: Placement, max_usd: float | None, usd_per_item_hour: float | None, log: Log
) -> CostLimit | None:
    """The limit of a new job, with the price that it is computed from; see `Pipeline.submit`.

    Raises:
        CallerError: An impossible figure, or the price is unknown.
    """
    if max_usd is None:
        if usd_per_item_hour is not None:
            raise CallerError(
                "`usd_per_item_hour` is given without `max_usd`; the limit is computed from that price.", what="max_usd"
            )
        return None
    check_usd("max_usd", max_usd)
    if usd_per_item_hour is not None:
        check_usd("usd_per_item_hour", usd_per_item_hour)
    return CostLimit(max_usd=max_usd, usd_per_item_hour=usd_per_item_hour or _price(site, place, log))


def check_usd(key: str, usd: float) -> None:
    """Refuse an amount that is not above 0, or beyond all reason."""
    if isinstance(usd, bool) or not isinstance(usd, (int, float)) or not (math.isfinite(usd) and 0 < usd <= MAX_USD):
        raise CallerError.about(key, usd, f"in USD, above 0 and at most {MAX_USD:.0f}", "Leave it out for no limit.")


def check_new_limit(max_usd: float | None) -> None:
    """Refuse an impossible new limit of a job that exists, also where nothing is left to run; None keeps the limit."""
    if max_usd is not None:
        check_usd("max_usd", max_usd)


def _price(site: Site, place: Placement, log: Log) -> float:
    """USD per hour of an item on the queue's most expensive machine, with all rungs at their `max_cpus`.

    Raises:
        CallerError: A machine that a rung may start has no known price, nor has its family.
    """
    from tidemill.money import job_cost

    descriptor, queue = site.descriptor, place.queue
    ask = partial(job_cost, queue, descriptor.cloud, descriptor.region, _HOUR, item=place.resources)
    here, cost = (ask(container=place.slots, at_most=at_most) for at_most in (False, True))
    replaced = [kind for kind in here.spot.unknown if kind not in here.on_demand.unknown]
    if replaced and any(rung.market == "spot" for rung in queue.capacity):
        kinds = ", ".join(replaced)
        log(f"no Spot price is known of {kinds}; the limit counts the On-Demand price, so the job may end early.")
    if elsewhere := [kind for kind in here.on_demand.unknown if kind not in cost.on_demand.unknown]:
        kinds = ", ".join(elsewhere)
        log(f"no price is known in {descriptor.region} of {kinds}; the limit counts the dearest one known elsewhere.")
    hourly = {"spot": cost.spot, "on_demand": cost.on_demand}
    total = 0.0
    for rung in queue.capacity:
        usd = hourly[rung.market]
        missing = [kind for kind in usd.unknown if kind in cost.on_demand.unknown]
        if usd.high is None or missing:
            raise CallerError(
                f"`max_usd` needs the price of every machine of queue {place.queue_name!r}, and none is known, in "
                f"{descriptor.region} or elsewhere, of {', '.join(missing) or 'any'}.",
                "State what an hour of an item's share of a machine costs: `usd_per_item_hour`.",
                what="max_usd",
            )
        total += rung.max_cpus * usd.high
    log(f"The limit counts prices, {cost.origin}.")
    return total / sum(rung.max_cpus for rung in queue.capacity)


def spent_of(ledger: Ledger, spec: JobSpec, rounds: Sequence[Round]) -> LimitUse | None:
    """A job's consumption of its limit; None for a job without one."""
    limit = limit_of(spec, rounds)
    if limit is None:
        return None
    return LimitUse(round(limit.usd(spent_seconds(ledger.store, ledger.job, len(rounds))), 4), limit.max_usd)


def ends_when_reached(ledger: Ledger, spec: JobSpec, by: str) -> bool:
    """Cancel a job that has reached its limit. True if it is cancelled, by this or before."""
    rounds = ledger.rounds()
    spent = spent_of(ledger, spec, rounds)
    if ledger.is_cancelled() or spent is None or not spent.reached:
        return ledger.is_cancelled()
    ledger.cancel(by, f"max_usd: {spent.words()} are spent", len(rounds), spent.max_usd)
    return True


def check_left(ledger: Ledger, spec: JobSpec, max_usd: float | None, command: str) -> float | None:
    """The limit of a job's next round, from a new limit or the current one; None where the spec's own holds.

    `command` is what the caller types to continue, without the limit: `resume tiles-0123abcd`.

    Raises:
        CallerError: It is used up, or the job was sent without one.
    """
    rounds = ledger.rounds()
    spent = spent_of(ledger, spec, rounds)
    if spent is None:
        if max_usd is not None:
            raise CallerError(
                f"max_usd is {max_usd:g}, and {spec.job} was sent without a limit; leave it out.", what="max_usd"
            )
        return None
    limit = spent.max_usd if max_usd is None else max_usd
    if spent.usd >= limit:
        more = f"`tidemill {command} --max-usd {max(2 * spent.max_usd, math.ceil(spent.usd) + 1):g}`"
        raise CallerError(
            f"max_usd is {limit:g}, and about {spent.usd:.2f} USD of it are spent already; give more, such as {more}.",
            what="max_usd",
        )
    return max_usd if max_usd is not None else rounds[-1].max_usd if rounds else None
