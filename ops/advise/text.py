"""QueueAdvice for people, and as plain data."""

import dataclasses
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import yaml

from ops.advise.figures import Book, Chance, Family, Span
from ops.advise.rules import KeyChange, QueueAdvice, Standing
from ops.advise.standing import QUEUES, Subject
from tidemill.prices import origin

_UNKNOWN = "unknown"
_HEADS = ("", "family", "types", "Spot USD", "On-Demand USD", "reclaimed", "not sold")
_MOST_CANDIDATES = 12


def lines(about: Subject, seen: Standing, advice: QueueAdvice, book: Book) -> Iterator[str]:
    """The queue as it is, what should change, and where the figures are from."""
    yield f"{about.stack}, queue {about.name}: {seen.cloud} {about.region}"
    yield ""
    yield from _table(seen, advice)
    yield "USD per hour and item, on full machines. * is named now, + is added, - goes; the others could be named."
    yield from _now(book)
    yield ""
    for change in advice.changes:
        yield f"{change.key}: {_shown(change.after)}"
        yield from (f"  {reason}." for reason in change.reasons)
    for note in advice.notes:
        yield f"Note: {note}"
    yield ""
    if advice.changes:
        yield f"Change it: {shlex.join(command(about, advice))}"
    else:
        yield "Nothing that is known says that the queue should change."
    yield from _sources(book)


def command(about: Subject, advice: QueueAdvice) -> list[str]:
    """The command that makes the changes."""
    settings = [f"{key}={_yaml(value)}" for key, value in map(partial(_setting, about), advice.changes)]
    return ["python", "-m", "ops", "queue", "set", "--stack", about.stack, about.name, *settings]


def _setting(about: Subject, change: KeyChange) -> tuple[str, Any]:
    """A key and its value; the key's parent where the file has nothing else in there, and it goes."""
    outer, _, inner = change.key.partition(".")
    alone = change.after is None and [*about.raw[QUEUES][about.name][outer]] == [inner]
    return outer if alone else change.key, change.after


def _now(book: Book) -> Iterator[str]:
    """The cloud's answers, and the gaps."""
    chance, wide = book.chances(), book.chances(wide=True)
    if chance:
        yield f"Spot in {book.region} now: {chance}."
    if wide and (not chance or wide.told != chance.told):
        yield f"With every family that could be named: {wide}."
    zones = book.zones()
    if zones:
        told = ", ".join(f"{each.zone} {each.value}" for each in zones)
        yield f"All in one zone: {told}, of 10 ({zones[0].at:%Y-%m-%d %H:%M} UTC, {zones[0].source})."
    yield from (f"Not known: {gap}" for gap in _gaps(book))
    if chance is None and not book.wide.prices:
        yield "All figures are those of the tables."


def _gaps(book: Book) -> list[str]:
    """Calls that failed, a line for each reason: without a login every call has the same one."""
    reasons: dict[tuple[str, str], dict[str, str]] = {}
    for gap in (*book.live.gaps, *book.wide.gaps, *book.zoned.gaps):
        bare = gap.error.problem.removeprefix(f"{gap.source}: ")
        reasons.setdefault((bare, gap.error.fix), {}).setdefault(gap.source, str(gap))
    return [
        next(iter(by_source.values())) if len(by_source) == 1 else f"{', '.join(by_source)}: {problem} {fix}".rstrip()
        for (problem, fix), by_source in reasons.items()
    ]


def _table(seen: Standing, advice: QueueAdvice) -> Iterator[str]:
    after = next((change.after for change in advice.changes if change.key == "machines.families"), None)
    present = [family.name for family in seen.families]
    added = [family for family in seen.candidates if after and family.name in after]
    others = sorted(
        (family for family in seen.candidates if family not in added),
        key=lambda family: (family.spot is None, family.spot.low if family.spot else 0.0, family.name),
    )
    rows: list[tuple[str, ...]] = [_HEADS]
    for family in (*seen.families, *added, *others[:_MOST_CANDIDATES]):
        mark = "" if family.name in present else " "
        if after is not None and (family.name in present) != (family.name in after):
            mark = "-" if family.name in present else "+"
        elif family.name in present:
            mark = "*"
        rows.append((mark, *_row(family)))
    rows = [row if any(family.missing for family in seen.families) else row[:-1] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _row(family: Family) -> tuple[str, ...]:
    return (
        family.name,
        str(len(family.types)),
        _span(family.spot),
        _span(family.on_demand),
        _percent(family.reclaimed),
        ", ".join(family.missing),
    )


def _span(span: Span | None) -> str:
    if span is None:
        return _UNKNOWN
    digits = 4 if span.low < 0.1 else 2
    low, high = f"{span.low:.{digits}f}", f"{span.high:.{digits}f}"
    return low if low == high else f"{low} to {high}"


def _shown(value: Any) -> str:
    """A value as a stack file has it."""
    return "leave it out" if value is None else _yaml(value)


def _yaml(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000)
    return text.removesuffix("...\n").strip()


def _percent(span: Span | None) -> str:
    if span is None:
        return _UNKNOWN
    low, high = f"{span.low:.0f}", f"{span.high:.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _sources(book: Book) -> Iterator[str]:
    yield ""
    used = origin(book.used)
    if used is None:
        yield f"No figure of {book.region} is known."
        return
    yield f"The oldest figure is of {used.as_of}. Capacity changes within minutes: take it as a hint."
    yield from (f"Source: {source}" for source in used.sources)


def document(about: Subject, seen: Standing, advice: QueueAdvice, book: Book) -> dict[str, Any]:
    """QueueAdvice as plain data with stable keys; null is unknown."""
    used = origin(book.used)
    return {
        "stack": about.stack,
        "queue": about.name,
        "cloud": seen.cloud,
        "region": about.region,
        "spot_now": _chance(book.chances()),
        "spot_now_with_every_family": _chance(book.chances(wide=True)),
        "zones_now": [
            {"zone": each.zone, "score": each.value, "at": each.at.isoformat(), "source": each.source}
            for each in book.zones()
        ],
        "not_known": _gaps(book),
        "families": _families(seen.families),
        "candidates": _families(seen.candidates),
        "changes": [dataclasses.asdict(change) for change in advice.changes],
        "notes": list(advice.notes),
        "command": shlex.join(command(about, advice)) if advice.changes else None,
        "as_of": used.as_of.isoformat() if used else None,
        "sources": list(used.sources) if used else [],
    }


def _families(families: Sequence[Family]) -> list[dict[str, Any]]:
    return [{**dataclasses.asdict(each), "types": [machine.type for machine in each.types]} for each in families]


def _chance(chance: Chance | None) -> dict[str, Any] | None:
    return chance and {**dataclasses.asdict(chance), "at": chance.at.isoformat()}
