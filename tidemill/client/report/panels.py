"""The panels of a report, in the order in which people ask. A panel without figures is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from tidemill.client.report.html import (
    Markup,
    figure,
    key_of,
    mebibytes,
    number,
    panel,
    percent,
    seconds,
    table,
    usd,
)
from tidemill.client.report.model import Cost, Distribution, FailedGroup, JobReport, MetricCurves, Timeline
from tidemill.client.report.svg import areas, curves, escaped, histogram, shares, time_ticks
from tidemill.figures import counted
from tidemill.prices import brief

ROWS = 60
"""Rows of a table of figures over time."""
FAILED = "failed"
COARSER = 4
"""Steps of the timeline that a rate is averaged over."""
Series = Mapping[str, Sequence[float]]


def panels(report: JobReport) -> Iterator[str]:
    """The panels as markup."""
    if report.failing.groups:
        yield _failures(report)
    if report.timeline:
        yield from _over_time(report, report.timeline)
    yield from _measures(report)
    yield from _attempts(report)
    yield from _slots(report)
    if report.cost:
        yield _cost(report, report.cost)
    elif report.estimated:
        yield _estimate_only(report)
    yield from _machines(report)
    if report.slowest:
        yield _slowest(report)
    yield from map(_metric, report.metrics)
    yield _about(report)


def _failures(report: JobReport) -> str:
    failing = report.failing
    sampled = (
        f" Counts are scaled up from {failing.chunks_read:,} of {failing.chunks:,} chunks with failed items."
        if failing.chunks_read < failing.chunks
        else ""
    )
    caption = f"Failed items with the same message, except for numbers and their own names.{sampled}"
    header = ("Items", "Share", "Message, and how to run them again", "Reason", "Group", "First to last", "Where")
    rows = [_group(report, group) for group in failing.groups]
    return panel("Failures", caption, table(header, rows), wide=True)


def _group(report: JobReport, group: FailedGroup) -> tuple[str | int, ...]:
    code = f" {group.exit_code}" if group.reason == "exit" and group.exit_code is not None else ""
    return (
        group.count,
        percent(group.count, report.failed),
        Markup(f"{escaped(group.message)}<br><code>tidemill retry {escaped(report.job)} --group {group.id}</code>"),
        f"{group.reason or 'several'}{code}",
        group.id,
        _span(group.first_at, group.last_at),
        "; ".join(group.places[:2]),
    )


def _span(first: str | None, last: str | None) -> str:
    """`2026-11-22 09:00:05 to 17:30:00`; of two days, both dates."""
    (day, at), (other, end) = ((moment or "")[:19].partition("T")[::2] for moment in (first or last, last or first))
    if day != other:
        return f"{day} {at} to {other} {end}"
    return f"{day} {at} to {end}" if at != end else f"{day} {at}".strip()


# ---- over time ------------------------------------------------------------------------------------------------------


def _over_time(report: JobReport, line: Timeline) -> Iterator[str]:
    span = line.step_seconds * len(line.succeeded)
    across = time_ticks(span, seconds)
    sums = {"succeeded": list(accumulate(line.succeeded)), FAILED: list(accumulate(line.failed))}
    if not report.failed and not any(line.failed):
        del sums[FAILED]
    total = max(report.items, report.executions)
    drawn = areas("Items done", _ends(sums), sums, across, failed=FAILED, total=float(total))
    caption = "Items whose outcome was recorded, and constant speed as a dashed line."
    yield panel("Items done", caption, figure(drawn, key_of(sums, FAILED), _rows(line, sums, last=True)))

    unit, scale = ("minute", 60.0) if line.step_seconds >= 1 else ("second", 1.0)
    rates = {
        name: [value * scale / line.step_seconds / COARSER for value in _sums(values)]
        for name, values in (("succeeded", line.succeeded), (FAILED, line.failed))
        if name in sums
    }
    drawn = areas(f"Items per {unit}", _peaks(rates), rates, across, failed=FAILED)
    caption = "Outcomes come a chunk at a time, so few large chunks look like peaks."
    yield panel(f"Items per {unit}", caption, figure(drawn, key_of(rates, FAILED), _rows(line, rates, every=COARSER)))

    if line.slots:
        drawn = areas("Busy slots", _peaks(line.slots), line.slots, across)
        most = f" At most {counted(max(line.machines), 'machine')} at once." if line.machines else ""
        caption = f"Slots that were held by chunks which are done, by machine type.{most}"
        kinds = line.slots | ({"machines": line.machines} if line.machines else {})
        yield panel("Busy slots", caption, figure(drawn, key_of(line.slots, least=1), _rows(line, kinds)))
    if any(line.reclaims):
        taken = {"reclaims": _sums(line.reclaims)}
        drawn = areas("Reclaims", _peaks(taken), taken, across)
        caption = f"{counted(report.reclaims, 'attempt')} on chunks ended because their machine was taken back."
        yield panel("Reclaims", caption, figure(drawn, "", _rows(line, taken, every=COARSER)), _reclaimed(report))


def _reclaimed(report: JobReport) -> str:
    """Which machines were taken back, and what that lost."""
    rows = [
        (each.type or "unknown", (each.market or "unknown").replace("_", "-"), each.reclaims, each.held_hours,
         each.lost_hours)
        for each in report.reclaimed
    ]  # fmt: skip
    return table(("Type", "Market", "Reclaims", "Slot-hours", "Without an outcome"), rows)


def _sums(values: Sequence[int]) -> list[int]:
    """Counts in fewer, longer steps: outcomes and reclaims come in bursts."""
    return [sum(values[at : at + COARSER]) for at in range(0, len(values), COARSER)]


def _ends(series: dict[str, list[int]]) -> str:
    return ", ".join(f"{values[-1]:,} {name}" for name, values in series.items())


def _peaks(series: Series) -> str:
    return ", ".join(f"{name}: at most {number(max(values))}" for name, values in series.items())


def _rows(line: Timeline, series: Series, *, last: bool = False, every: int = 1) -> str:
    """Figures over time as a table of few rows: means over some steps, or their last values. A figure stands for
    `every` so many steps of the timeline."""
    size = len(next(iter(series.values())))
    step = -(-size // ROWS)

    def of(values: Sequence[float]) -> float:
        return values[-1] if last else sum(values) / len(values)

    rows = [
        (seconds(at * every * line.step_seconds), *(round(of(values[at : at + step]), 2) for values in series.values()))
        for at in range(0, size, step)
    ]
    return table(("After", *series), rows)


# ---- distributions --------------------------------------------------------------------------------------------------


def _measures(report: JobReport) -> Iterator[str]:
    again = " Items that ran in several rounds count in each." if report.executions > report.items else ""
    yield from _measure("Time per item", f"Wall time of the last attempt.{again}", report.wall, seconds)
    size = counted(report.chunk_size, "item")
    yield from _measure(
        "Time per chunk", f"From the lease to the record. A chunk has {size}.", report.chunk_seconds, seconds
    )
    yield from _measure("CPU per item", "Cores that an item kept busy: CPU time over wall time.", report.cores, number)
    yield from _measure("Memory per item", "The most that an item had at once.", report.memory_mib, mebibytes)
    yield from _measure("GPU memory per item", "The most in use on its GPUs.", report.gpu_memory_mib, mebibytes)
    yield from _measure(
        "GPU use per item", "Share of time in which its GPUs computed, in percent.", report.gpu_percent, number
    )


def _measure(title: str, caption: str, values: Distribution | None, words: Callable[[float], str]) -> Iterator[str]:
    if values is None:
        return
    summary = f"p50 {words(values.p50)}, p90 {words(values.p90)}, p99 {words(values.p99)}, max {words(values.max)}"
    mark = None if values.asked is None else (values.asked, f"asked {words(values.asked)}")
    picture = f"{counted(values.items, 'item')}: {summary}"
    drawn = histogram(title, picture, values.bars, words, mark, binary=words is mebibytes)
    rows = [(f"{words(low)} to {words(high)}", items) for low, high, items in values.bars if items]
    yield panel(
        title, f"{caption} {summary}, mean {words(values.mean)}.", figure(drawn, "", table(("From, to", "Count"), rows))
    )


def _metric(metric: MetricCurves) -> str:
    some, shown = metric.curves, len(metric.curves)
    names = [f"item {curve.item}: {curve.uri}" for curve in some]
    drawn = curves(f"Metric {metric.name}", f"{counted(shown, 'item')}", [curve.points for curve in some])
    across = "steps" if metric.steps else "values, in their order"
    chosen = f" These are {shown} of {metric.items:,} items, by their last values." if shown < metric.items else ""
    rows = [
        (curve.item, curve.uri, len(curve.points), min(value for _, value in curve.points),
         max(value for _, value in curve.points), curve.points[-1][1])
        for curve in some
    ]  # fmt: skip
    data = table(("Item", "Hyperparameters", "Points", "Lowest", "Highest", "Last"), rows)
    return panel(f"Metric {metric.name}", f"Values over {across}.{chosen}", figure(drawn, key_of(names, least=1), data))


# ---- what slots and attempts did ------------------------------------------------------------------------------------


def _attempts(report: JobReport) -> Iterator[str]:
    again = sum(report.tries[1:])
    if not again and not report.reasons:
        return
    names = ("first attempt", "second attempt", "later attempt")
    parts: dict[str, float] = dict(zip(names, report.tries, strict=True))
    rows = [(f"ended at {name}", items) for name, items in zip(names, report.tries, strict=True)]
    rows += [(f"failed: {reason}", items) for reason, items in report.reasons.items()]
    drawn = shares("Attempts", "Items by the attempt that ended them", parts)
    caption = f"{counted(again, 'item')} took more than one attempt. Reclaims are no attempts."
    yield panel("Attempts", caption, figure(drawn, key_of(parts), table(("Items", "Count"), rows)))


def _slots(report: JobReport) -> Iterator[str]:
    use = report.slot_use
    if use is None:
        return
    parts = {
        "program": use.work,
        "waiting for inputs": use.fetch,
        "waiting for uploads": use.upload,
        "other": use.other,
    }
    rows = [(name, round(hours, 3), percent(hours, use.held)) for name, hours in parts.items()]
    drawn = shares("Use of slots", f"{number(use.held)} slot-hours", parts)
    caption = (
        f"{seconds(use.held * 3600)} of slots, held from the lease of a chunk to its record. Other: starts of "
        "programs, earlier attempts, and waits between items."
    )
    yield panel("Use of slots", caption, figure(drawn, key_of(parts), table(("Slots", "Hours", "Share"), rows)))


# ---- money and machines ---------------------------------------------------------------------------------------------


def _cost(report: JobReport, cost: Cost) -> str:
    rows: list[tuple[str, str, float | None, str, str]] = [
        (line.type, line.market.replace("_", "-"), line.slot_hours, usd(line.low, line.high), usd(line.on_demand))
        for line in cost.lines
    ]
    if cost.unpriced_hours:
        rows.append(("without a known price", "", cost.unpriced_hours, "unknown", "unknown"))
    caption = f"Actual: {usd(cost.low, cost.high)} USD{_against(report)}."
    if cost.emulated:
        caption = (
            f"Emulated: nothing was paid. At list prices it would be {usd(cost.low, cost.high)} USD{_against(report)}."
        )
    counted_in = (
        f"Counted is the slots' share of machines and their disks, at prices of {cost.as_of} or later from "
        f"{escaped(brief(cost.sources))}, with attempts that a reclaim ended. Not in it: the start of machines, idle "
        "time, attempts whose worker died, logs, requests and storage."
    )
    header = ("Machine", "Market", "Slot-hours", "USD", "USD On-Demand")
    return panel("Cost", caption, table(header, rows), f'<p class="soft">{counted_in}</p>', wide=True)


def _against(report: JobReport) -> str:
    expected = report.estimated
    if expected is None or expected.usd_low is None:
        return ""
    span = usd(expected.usd_low, expected.usd_high)
    return f"; estimated at the submit: {span} USD, at {seconds(expected.item_seconds)} per item"


def _estimate_only(report: JobReport) -> str:
    expected = report.estimated
    assert expected is not None
    took = f", and {seconds(report.wall.mean)} were measured" if report.wall else ""
    return panel("Estimate", f"The submit expected {seconds(expected.item_seconds)} per item{took}.")


def _machines(report: JobReport) -> Iterator[str]:
    if not any(place.type or place.zone for place in report.places):
        return
    rows = [
        (
            place.type or "unknown",
            place.zone or "unknown",
            (place.market or "unknown").replace("_", "-"),
            place.machines,
            place.chunks,
            place.items,
            place.failed,
            percent(place.failed, place.items),
            round(place.slot_hours, 3),
        )
        for place in report.places
    ]
    header = ("Type", "Zone", "Market", "Machines", "Chunks", "Items", "Failed", "Share", "Slot-hours")
    yield panel("Machines", "Where the committed chunks ran.", table(header, rows), wide=True)


def _slowest(report: JobReport) -> str:
    p99 = report.wall.p99 if report.wall else 0.0
    rows = [
        (
            item.item,
            seconds(item.seconds),
            f"{item.seconds / p99:.1f} times p99" if p99 else "",
            item.attempts,
            ", ".join(part for part in (item.type, item.zone) if part) or "unknown",
            f"tidemill logs {report.job} --item {item.item}",
        )
        for item in report.slowest
    ]
    header = ("Item", "Time", "Compared", "Attempts", "Machine", "What it printed")
    first, rest = table(header, rows[:10]), rows[10:]
    more = f"<details><summary>{len(rest)} more</summary>{table(header, rest)}</details>" if rest else ""
    return panel("Slowest items", "Of the three slowest of each chunk.", first, more, wide=True)


def _about(report: JobReport) -> str:
    read = f"{counted(report.records, 'record')} with {counted(report.executions, 'execution')} of items"
    caption = (
        f"Counts are exact. Quantiles are within 2 %. Times, resources and machines come from {read}; attempts that a "
        f"reclaim ended are not in them."
    )
    cpus = "CPU" if report.asked_cpus == 1 else "CPUs"
    gpus = f", {counted(report.asked_gpus, 'GPU')}" if report.asked_gpus else ""
    rows = [
        ("program", " ".join(report.command)),
        ("an item asks for", f"{report.asked_cpus:g} {cpus}, {mebibytes(report.asked_memory_mib)}{gpus}"),
        ("chunks", f"{report.chunks_done:,} of {report.chunks:,} done, {counted(report.chunk_size, 'item')} each"),
        ("rounds", f"{report.rounds}"),
        ("workers", ", ".join(f"tidemill {version}" for version in report.versions if version) or "unknown"),
        ("region", f"{report.cloud} {report.region}"),
        ("written at", f"{report.as_of.replace('T', ' ').replace('+00:00', '')} UTC"),
    ]
    return panel("About this report", caption, table(("What", "Value"), rows), wide=True)
