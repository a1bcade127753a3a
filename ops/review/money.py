"""Capacity and money for reviewers: before and after, with unknown prices marked."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from ops.review.escape import code
from ops.review.models import Fleet, IdleCost, Money, StackReview

_MARKETS: dict[str | None, str] = {"spot": "Spot", "on_demand": "On-Demand"}


def tables(stacks: Sequence[StackReview], most: int | None = None) -> Iterator[str]:
    """The lines of the section; none if no stack has a fleet or idle costs."""
    fleets = [(stack.stack, fleet) for stack in stacks for fleet in stack.fleets if _differs(fleet)]
    shown = fleets if most is None else fleets[:most]
    if shown:
        yield "| stack | fleet | market | vCPUs at most | USD per hour, all running |"
        yield "|---|---|---|---:|---:|"
        for stack, fleet in shown:
            vcpus = _change(_whole(fleet.cpus_before), _whole(fleet.cpus_after))
            usd = _change(_range(fleet.usd_hour_before), _range(fleet.usd_hour_after))
            market = _MARKETS.get(fleet.market, "unknown")
            yield f"| {code(stack)} | {code(fleet.name)} | {market} | {vcpus} | {usd} |"
        if len(fleets) > len(shown):
            yield f"\nand {len(fleets) - len(shown)} more fleets."
        yield ""
    for stack in stacks:
        if stack.whole:
            yield from _totals(stack)
    dated = [stack for stack in stacks if stack.prices and (stack.whole or any(map(_differs, stack.fleets)))]
    for prices, priced in groupby(sorted(dated, key=lambda stack: stack.prices or ""), key=lambda stack: stack.prices):
        yield f"- Prices of {', '.join(code(stack.stack) for stack in priced)}: {prices}."


def _totals(stack: StackReview) -> Iterator[str]:
    if stack.fleets:
        before, after = (total(_sides(stack.fleets, old)) for old in (True, False))
        usd = _change(_range(before), _range(after))
        yield f"- {code(stack.stack)}, all fleets at full capacity, USD per hour: {usd}."
    if stack.idle:
        before, after = (_standing(stack.idle, old) for old in (True, False))
        parts = ", ".join(_part(row) for row in stack.idle)
        yield f"- {code(stack.stack)}, idle, USD per month: {_change(before, after)} ({parts})."


def total(parts: Iterable[Money | None]) -> Money | None:
    """The sum of known prices; None if there are none."""
    sums = [part for part in parts if part is not None]
    if not sums:
        return None
    priced = [part for part in sums if part.low is not None and part.high is not None]
    low, high = (sum(getattr(part, side) for part in priced) if priced else None for side in ("low", "high"))
    return Money(low, high, tuple(sorted({name for part in sums for name in part.unknown})))


def _sides(fleets: Iterable[Fleet], old: bool) -> list[Money | None]:
    return [fleet.usd_hour_before if old else fleet.usd_hour_after for fleet in fleets]


def _differs(fleet: Fleet) -> bool:
    return (fleet.cpus_before, fleet.usd_hour_before) != (fleet.cpus_after, fleet.usd_hour_after)


def _standing(rows: Iterable[IdleCost], old: bool) -> str:
    counted = [(row.count_before if old else row.count_after, row.usd_month_each) for row in rows]
    counted = [(count, each) for count, each in counted if count]
    priced = [count * each for count, each in counted if each is not None]
    if not counted:
        return "0"
    if not priced:
        return "unknown"
    return _usd(sum(priced)) + (" plus unknown prices" if len(priced) < len(counted) else "")


def _part(row: IdleCost) -> str:
    counts = str(row.count_after) if row.count_before == row.count_after else f"{row.count_before} → {row.count_after}"
    each = "price unknown" if row.usd_month_each is None else f"{_usd(row.usd_month_each)} each"
    return f"{row.what} {counts}, {each}"


def _range(money: Money | None) -> str | None:
    if money is None:
        return None
    unknown = f"{len(money.unknown)} machine types unknown" if len(money.unknown) > 1 else "1 machine type unknown"
    if money.low is None or money.high is None:
        return f"unknown ({unknown})" if money.unknown else "unknown"
    low, high = _usd(money.low), _usd(money.high)
    text = low if low == high else f"{low} to {high}"
    return f"{text} ({unknown})" if money.unknown else text


def _whole(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _change(before: str | None, after: str | None) -> str:
    if before == after:
        return before or "none"
    return f"{before or 'none'} → {after or 'none'}"


def _usd(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"
