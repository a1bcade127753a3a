"""Advises on a queue's machines, by pure rules over figures. Each change has its reasons, each reason its figures.

Rules never narrow what a queue needs to run, never decide by a figure that is unknown, and agree with themselves: for a
queue that has been changed as they say, they say nothing more (ADR 75).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from components import machines
from components.config import Queue, Rung
from ops.advise.figures import Book, Family
from ops.clouds import facts
from tidemill.figures import counted

OFTEN_RECLAIMED = 20
"""Percent: the Spot advisor's worst bucket begins here."""
DEAR = 1.5
"""A family that costs so many times the cheapest one is not added."""
PRICIER = 1.1
"""On GCP a family that costs so many times another one is not preferred to it."""
OVERFLOW = 4
"""One in so many of the Spot vCPUs is what On-Demand adds where Spot is scarce."""


@dataclass(frozen=True)
class KeyChange:
    """A key of the queue that should have another value.

    Attributes:
        key: Below the queue, such as `machines.families`.
        before: Its value in the file, or its default.
        after: What it should be; None for leaving the key out.
    """

    key: str
    before: Any
    after: Any
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class QueueAdvice:
    """Changes to a queue, and notes for people, which change nothing."""

    changes: tuple[KeyChange, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Standing:
    """A queue as it is.

    Attributes:
        families: Those that it names, in its order.
        candidates: Those that it could name as well: same processor, with GPUs where it has some, and valid.
        zones: How many zones its network has; None where the stack file does not say.
        scarce: Why Spot machines are scarce, with figures; None where they are not, or nothing is known.
        limits: Quotas that are too small for it, a sentence each.
    """

    cloud: str
    queue: Queue
    families: tuple[Family, ...]
    candidates: tuple[Family, ...]
    zones: int | None = None
    scarce: str | None = None
    limits: tuple[str, ...] = ()


def advise(seen: Standing) -> QueueAdvice:
    if not any(rung.market == "spot" for rung in seen.queue.open_rungs):
        return QueueAdvice((), tuple(_without_spot(seen)))
    changes = [*_families(seen), *_zones(seen)]
    named = next((change.after for change in changes if change.key == "machines.families"), None)
    kept = [each for each in (*seen.families, *seen.candidates) if each.name in named] if named else seen.families
    return QueueAdvice((*changes, *_rungs(seen, kept)), (*_notes(seen), *_narrow(seen, kept)))


def _families(seen: Standing) -> Iterator[KeyChange]:
    if any(rung.reservation for rung in seen.queue.capacity):
        return
    before = list(seen.queue.machines.families)
    wrong = {each.name: why for each in seen.families if (why := _wrong(each, seen))}
    good = [each for each in seen.families if each.name not in wrong]
    added, reasons = _added(good, seen)
    count = sum(len(each.types) for each in (*good, *added))
    useless = {each.name for each in seen.families if not _startable(each)}
    # Not what is wanted of a scarce queue: it may be scarce because of what goes here.
    enough = count >= facts(seen.cloud).WANTED_TYPES
    dropped = {name: why for name, why in wrong.items() if name in useless or enough}
    after = [*(each for each in before if each not in dropped), *(each.name for each in added)]
    if not after:
        return
    if facts(seen.cloud).CHEAPEST_FIRST:
        after, why = _ordered(after, seen)
        reasons += why
    reasons += [f"{name}: {why}" for name, why in dropped.items()]
    if after != before:
        yield KeyChange("machines.families", before, after, tuple(reasons))
        yield from _exclude(seen, set(dropped))


def _wanted(seen: Standing) -> int:
    cloud = facts(seen.cloud)
    return cloud.WANTED_WHEN_SCARCE if seen.scarce else cloud.WANTED_TYPES


def _wrong(family: Family, seen: Standing) -> str | None:
    """Why a queue is better off without a family; the same answer whatever other families the queue has."""
    if not family.types:
        return "no machine of the queue's sizes that an item fits"
    if not _startable(family):
        return "the region does not sell it"
    everyone = (*seen.families, *seen.candidates)
    fixed = [(each.on_demand.low, each.name) for each in everyone if each.on_demand and each.types]
    if family.spot and fixed and family.spot.low >= min(fixed)[0]:
        usd, name = min(fixed)
        return f"{_usd(family.spot.low)} per item-hour on Spot, and {name} costs {_usd(usd)} On-Demand"
    if facts(seen.cloud).RECLAIMS_COUNT and family.reclaimed and family.reclaimed.low >= OFTEN_RECLAIMED:
        return f"more than {family.reclaimed.low:g} % of its machines were reclaimed in a month"
    return None


def _startable(family: Family) -> bool:
    return any(each.type not in family.missing for each in family.types)


def _added(good: Sequence[Family], seen: Standing) -> tuple[list[Family], list[str]]:
    """The cheapest candidates until there are enough types."""
    wanted, count = _wanted(seen), sum(len(family.types) for family in good)
    prices = [family.spot.low for family in (*seen.families, *seen.candidates) if family.spot and family.types]
    if count >= wanted or not prices:
        return [], []
    limit = max(DEAR * min(prices), *(family.spot.low for family in good if family.spot), 0.0)
    able = [
        (family.spot.low, family.name, family)
        for family in seen.candidates
        if family.spot and family.spot.low <= limit and not family.missing and not _wrong(family, seen)
    ]
    added: list[Family] = []
    for _, _, family in sorted(able, key=lambda row: row[:2]):
        if count >= wanted:
            break
        added.append(family)
        count += len(family.types)
    if not added:
        return [], []
    why = [seen.scarce] if seen.scarce else []
    had = sum(len(family.types) for family in seen.families)
    why.append(f"An item fits {counted(had, 'type')} of the queue; {facts(seen.cloud).WANTED_BY} {wanted} or more")
    why += [
        f"{family.name}: {counted(len(family.types), 'type')} from {_usd(family.spot.low)} per item-hour"
        for family in added
        if family.spot
    ]
    return added, why


def _ordered(names: list[str], seen: Standing) -> tuple[list[str], list[str]]:
    """GCP starts machines of the first families first: the order by price, where the first costs clearly more."""
    prices = {each.name: each.spot.low for each in (*seen.families, *seen.candidates) if each.spot}
    first = names[0]
    priced = [name for name in names if name in prices]
    best = min(priced, key=lambda name: prices[name], default=first)
    if first not in prices or prices[first] <= PRICIER * prices[best]:
        return names, []
    order = sorted(priced, key=lambda name: prices[name]) + [name for name in names if name not in prices]
    return order, [f"{best} first: {_usd(prices[best])} per item-hour, {first} costs {_usd(prices[first])}"]


def _exclude(seen: Standing, dropped: set[str]) -> Iterator[KeyChange]:
    """`machines.exclude` may name only types that the queue would start."""
    before = seen.queue.machines.exclude
    types = machines.families(seen.cloud)
    kept = {each.type for name in seen.queue.machines.families if name not in dropped for each in types[name]}
    after = [each for each in before if each in kept]
    if after != before:
        yield KeyChange("machines.exclude", before, after or None, ("It names types of families that go",))


def _zones(seen: Standing) -> Iterator[KeyChange]:
    """A pool of Spot capacity is a type in a zone, so zones that a queue leaves out are pools that it leaves out.

    On GCP a change of zones replaces the group, so there it is a note.
    """
    named, queue = seen.queue.machines.zones, seen.queue
    cloud = facts(seen.cloud)
    tied = cloud.in_one_zone(queue) or any(rung.reservation for rung in queue.capacity)
    if not cloud.ZONES_MAY_CHANGE or not named or tied or seen.zones is None or seen.zones <= len(named):
        return
    types = sum(len(each.types) for each in seen.families)
    why = (
        f"A Spot pool is a type in a zone: the network's {seen.zones} zones have up to {types * seen.zones} pools for "
        f"the queue, and {counted(len(named), 'zone')} up to {types * len(named)}"
    )
    yield KeyChange("machines.zones", named, None, (why,))


def _rungs(seen: Standing, families: Sequence[Family]) -> Iterator[KeyChange]:
    rungs = seen.queue.capacity
    after = [_uncapped(rung, families) for rung in rungs]
    reasons = [
        f"At most {old.max_price_percent} % of the On-Demand price leaves {new[1]} out"
        for old, new in zip(rungs, after, strict=True)
        if new[1]
    ]
    kept = [rung for rung, _ in after]
    spot = [rung for rung in rungs if rung.market == "spot" and not rung.drain]
    if seen.scarce and len(rungs) < 3 and not any(rung.market == "on_demand" for rung in rungs):
        cpus = _overflow(families, spot)
        kept.append(Rung(market="on_demand", max_cpus=cpus))
        reasons += [seen.scarce, f"An On-Demand rung opens when Spot has nothing. {_cost(cpus, families)}"]
    if kept != rungs:
        yield KeyChange("capacity", _plain(rungs), _plain(kept), tuple(reasons))


def _uncapped(rung: Rung, families: Sequence[Family]) -> tuple[Rung, str]:
    """A rung whose cap admits what its families cost, and which families it left out."""
    percent = rung.max_price_percent
    if percent is None or rung.market != "spot" or rung.drain:
        return rung, ""
    needed = {
        each.name: 100 * each.spot.low / each.on_demand.low
        for each in families
        if each.spot and each.on_demand and each.on_demand.low
    }
    out = {name: value for name, value in needed.items() if percent < value <= 100}
    if not out:
        return rung, ""
    enough = min(100, 5 * -int(-max(out.values()) // 5))
    return rung.model_copy(update={"max_price_percent": enough}), ", ".join(sorted(out))


def _cost(cpus: int, families: Sequence[Family]) -> str:
    spans = [each.cpu_on_demand for each in families if each.cpu_on_demand]
    if not spans:
        return "What it costs is unknown"
    low, high = cpus * min(each.low for each in spans), cpus * max(each.high for each in spans)
    return f"Its {cpus} vCPUs cost {low:.2f} to {high:.2f} USD per hour while they run, without disks"


def _overflow(families: Sequence[Family], spot: Sequence[Rung]) -> int:
    """vCPUs of whole machines."""
    size = min((each.cpus for family in families for each in family.types), default=1)
    wanted = sum(rung.max_cpus for rung in spot) / OVERFLOW
    return max(size, round(wanted / size) * size)


def _plain(rungs: Sequence[Rung]) -> list[dict[str, Any]]:
    return [rung.model_dump(exclude_unset=True) for rung in rungs]


def _notes(seen: Standing) -> Iterator[str]:
    queue = seen.queue
    yield from seen.limits
    if any(rung.reservation for rung in queue.capacity):
        yield "Families and zones stay: a rung of the queue is tied to a reservation."
    if not any(family.spot for family in seen.families):
        yield (
            "No Spot price of the queue's families is known in this region, so no family joins or goes for its price. "
            f"Log in, or run `python -m ops prices refresh --cloud {seen.cloud}`."
        )
    may_change = facts(seen.cloud).ZONES_MAY_CHANGE
    if not may_change and len(queue.machines.zones) == 1:
        yield (
            f"machines.zones names one zone ({queue.machines.zones[0]}). More zones have more Spot capacity, and the "
            "change replaces the group: docs/upgrading.md, Other zones."
        )
    if may_change and len(queue.machines.zones) == 1 and seen.zones is None:
        yield f"machines.zones names one zone ({queue.machines.zones[0]}). More zones have more Spot capacity."
    for family in seen.families:
        if family.missing and len(family.missing) < len(family.types):
            yield f"The region does not sell {', '.join(family.missing)}: name them in machines.exclude."
    if may_change and seen.zones == 1:
        yield "The network has one zone. tidemill:network.create.zones takes more; `ops estimate` shows what it costs."


def _narrow(seen: Standing, families: Sequence[Family]) -> Iterator[str]:
    """A remark on a wider choice of types, which no rule can give: the sizes are a person's to choose."""
    count = sum(len(each.types) for each in families)
    tied = any(rung.reservation for rung in seen.queue.capacity)
    cloud = facts(seen.cloud)
    few = cloud.SIZES_MAY_WIDEN and count < cloud.WANTED_TYPES
    if few and any(each.spot for each in families) and not tied:
        low, high = seen.queue.machines.cpus.min, seen.queue.machines.cpus.max
        yield (
            f"An item fits {counted(count, 'type')}, and no other family could join for its price. A wider range than "
            f"machines.cpus {{min: {low}, max: {high}}} adds sizes."
        )


def _without_spot(seen: Standing) -> Iterator[str]:
    yield "No rung of the queue is on Spot, and advice is about Spot: nothing is changed."
    if any(rung.reservation for rung in seen.queue.capacity):
        return
    saved = [1 - each.spot.low / each.on_demand.low for each in seen.families if each.spot and each.on_demand]
    if saved and max(saved) > 0:
        yield (
            f"Spot costs up to {100 * max(saved):.0f} % less: for items that may run twice, put {{market: spot}} "
            "before the On-Demand rung."
        )


def scarcity(book: Book, families: Sequence[Family]) -> str | None:
    """Why Spot machines of these families are scarce, in one sentence with figures; None where nothing says so."""
    chance = book.chances()
    if chance:
        wide = book.chances(wide=True)
        more = f", and {wide.told} with every family that it could name" if wide and wide.told != chance.told else ""
        return f"Spot in {book.region} now: {chance}{more}" if chance.low else None
    if not facts(book.cloud).RECLAIMS_COUNT:
        return None
    shares = [each.reclaimed for each in families if each.types]
    if shares and all(each and each.low >= OFTEN_RECLAIMED for each in shares):
        return f"More than {OFTEN_RECLAIMED} % of the machines of each family were reclaimed in a month"
    return None


def _usd(value: float) -> str:
    return f"{value:.4f} USD" if value < 0.1 else f"{value:.2f} USD"
