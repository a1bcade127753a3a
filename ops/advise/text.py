"""QueueAdvice for people, and as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from ops.advise.figures import Book, Chance, Family, Span
from ops.advise.rules import QueueAdvice, Standing
from ops.advise.standing import Subject
from tidemill.prices import origin

_UNKNOWN = "unknown"
_HEADS = ("", "family", "types", "Spot USD", "On-Demand USD", "reclaimed", "not sold")
_MOST_CANDIDATES = 12


def lines(
    about: Subject, seen: Standing, found: QueueAdvice, known: Book, diff: str, *, written: bool
) -> Iterator[str]:
    """The queue as it is, what should change, and where the figures are from."""
    yield f"{about.stack}, queue {about.name}: {seen.cloud} {about.region}"
    yield ""
    yield from _table(seen, found)
    yield "USD per hour and item, on full machines. * is named now, + is added, - goes; the others could be named."
    yield from _now(known)
    yield ""
    for change in found.changes:
        yield f"{change.key}: {_shown(change.after)}"
        yield from (f"  {reason}." for reason in change.reasons)
    for note in found.notes:
        yield f"Note: {note}"
    if diff:
        yield ""
        yield diff
        yield ""
        yield (
            f"Written. Next: make review STACK={about.stack}"
            if written
            else "Nothing is written; --write edits the file."
        )
    elif not found.changes:
        yield f"stacks/{about.path.name} is unchanged: nothing that is known says that the queue should change."
    yield from _sources(known)


def _now(known: Book) -> Iterator[str]:
    """What the cloud says, and what it did not."""
    chance, wide = known.chances(), known.chances(wide=True)
    if chance:
        yield f"Spot in {known.region} now: {chance}."
    if wide and (not chance or wide.told != chance.told):
        yield f"With every family that could be named: {wide}."
    zones = known.zones()
    if zones:
        told = ", ".join(f"{each.zone} {each.value}" for each in zones)
        yield f"All in one zone: {told}, of 10 ({zones[0].at:%Y-%m-%d %H:%M} UTC, {zones[0].source})."
    yield from (f"Not known: {gap}" for gap in _gaps(known))
    if chance is None and not known.wide.prices:
        yield "All figures are those of the tables."


def _gaps(known: Book) -> list[str]:
    """What could not be asked, a line for each reason: without a login every call has the same one."""
    reasons: dict[tuple[str, str], dict[str, str]] = {}
    for gap in (*known.live.gaps, *known.wide.gaps, *known.zoned.gaps):
        bare = gap.error.problem.removeprefix(f"{gap.source}: ")
        reasons.setdefault((bare, gap.error.fix), {}).setdefault(gap.source, str(gap))
    return [
        next(iter(found.values())) if len(found) == 1 else f"{', '.join(found)}: {problem} {fix}".rstrip()
        for (problem, fix), found in reasons.items()
    ]


def _table(seen: Standing, found: QueueAdvice) -> Iterator[str]:
    after = next((change.after for change in found.changes if change.key == "machines.families"), None)
    present = [each.name for each in seen.families]
    added = [each for each in seen.candidates if after and each.name in after]
    others = sorted(
        (each for each in seen.candidates if each not in added),
        key=lambda each: (each.spot is None, each.spot.low if each.spot else 0.0, each.name),
    )
    rows: list[tuple[str, ...]] = [_HEADS]
    for each in (*seen.families, *added, *others[:_MOST_CANDIDATES]):
        mark = "" if each.name in present else " "
        if after is not None and (each.name in present) != (each.name in after):
            mark = "-" if each.name in present else "+"
        elif each.name in present:
            mark = "*"
        rows.append((mark, *_row(each)))
    rows = [row if any(each.missing for each in seen.families) else row[:-1] for row in rows]
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


def _span(found: Span | None) -> str:
    if found is None:
        return _UNKNOWN
    digits = 4 if found.low < 0.1 else 2
    low, high = f"{found.low:.{digits}f}", f"{found.high:.{digits}f}"
    return low if low == high else f"{low} to {high}"


def _shown(value: Any) -> str:
    """A value as a stack file has it."""
    if value is None:
        return "leave it out"
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).strip()


def _percent(found: Span | None) -> str:
    if found is None:
        return _UNKNOWN
    low, high = f"{found.low:.0f}", f"{found.high:.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _sources(known: Book) -> Iterator[str]:
    yield ""
    used = origin(known.used)
    if used is None:
        yield f"No figure of {known.region} is known."
        return
    yield f"The oldest figure is of {used.as_of}. Capacity changes within minutes: take it as a hint."
    yield from (f"Source: {source}" for source in used.sources)


def document(about: Subject, seen: Standing, found: QueueAdvice, known: Book, *, written: bool) -> dict[str, Any]:
    """QueueAdvice as plain data with stable keys; null is unknown."""
    used = origin(known.used)
    return {
        "stack": about.stack,
        "queue": about.name,
        "cloud": seen.cloud,
        "region": about.region,
        "spot_now": _chance(known.chances()),
        "spot_now_with_every_family": _chance(known.chances(wide=True)),
        "zones_now": [
            {"zone": each.zone, "score": each.value, "at": each.at.isoformat(), "source": each.source}
            for each in known.zones()
        ],
        "not_known": _gaps(known),
        "families": _families(seen.families),
        "candidates": _families(seen.candidates),
        "changes": [dataclasses.asdict(change) for change in found.changes],
        "notes": list(found.notes),
        "written": written,
        "as_of": used.as_of.isoformat() if used else None,
        "sources": list(used.sources) if used else [],
    }


def _families(found: Sequence[Family]) -> list[dict[str, Any]]:
    return [{**dataclasses.asdict(each), "types": [machine.type for machine in each.types]} for each in found]


def _chance(found: Chance | None) -> dict[str, Any] | None:
    return found and {**dataclasses.asdict(found), "at": found.at.isoformat()}
