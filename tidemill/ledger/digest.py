"""The digest of a chunk: what a report needs of its outcomes, in a few hundred bytes of the record's first line.

A report of half a million items reads the heads of their records and nothing else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tidemill.ledger.records import Outcome
from tidemill.sketch import Sketch

VERSION = 1
MOST_BYTES = 4096
SLOWEST = 3
_STEPS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class RanOn:
    """Where a chunk ran. Null is unknown, never a guess."""

    id: str | None = None
    type: str | None = None
    zone: str | None = None
    market: str | None = None
    """`spot` or `on_demand`."""


UNKNOWN = RanOn()


@dataclass(frozen=True)
class RunFacts:
    """How a chunk was worked on by the attempt that committed it.

    Attributes:
        started_at: When it was leased, ISO 8601.
        slots: Items that ran side by side at most.
        held: Seconds that slots were held.
        fetch: Those of them that waited for inputs.
        upload: Those of them that waited for outputs on their way up.
        worked: Wall seconds of the items that it ended; those of earlier attempts' progress are not among them.
        succeeded: Those of these items that succeeded.
    """

    started_at: str
    machine: RanOn
    slots: int
    held: float
    fetch: float
    upload: float
    worked: float
    succeeded: int


def interrupted(run: RunFacts) -> dict[str, Any]:
    """A drained attempt's figures: its machine, the seconds for which slots were held, and those of them without an
    outcome of an item."""
    lost = max(0.0, run.held - run.worked)
    return {"machine": asdict(run.machine), "held": round(run.held, 3), "lost": round(lost, 3)}


def digest_of(outcomes: Sequence[Outcome], run: RunFacts) -> dict[str, Any]:
    """The digest of outcomes and of how they came about. It never has more than 4 KiB."""
    ran = [outcome for outcome in outcomes if outcome.wall_seconds > 0 or outcome.status == "succeeded"]
    values = {
        "wall": [outcome.wall_seconds for outcome in ran],
        "cores": [outcome.cpu_seconds / outcome.wall_seconds for outcome in ran if outcome.wall_seconds > 0],
        "memory": [outcome.peak_memory_mib for outcome in ran],
        "gpu": [outcome.peak_gpu_memory_mib for outcome in ran if outcome.peak_gpu_memory_mib is not None],
        "gpu_busy": [outcome.gpu_percent for outcome in ran if outcome.gpu_percent is not None],
    }
    sketches = {name: Sketch(each) for name, each in values.items() if each}
    slowest = sorted(ran, key=lambda outcome: -outcome.wall_seconds)[:SLOWEST]
    digest: dict[str, Any] = {
        "v": VERSION,
        "started_at": run.started_at,
        "machine": {**asdict(run.machine), "slots": run.slots},
        "held": round(run.held, 3),
        "fetch": round(run.fetch, 3),
        "upload": round(run.upload, 3),
        "worked": round(run.worked, 3),
        "succeeded": run.succeeded,
        "cpu_seconds": round(sum(outcome.cpu_seconds for outcome in outcomes), 3),
        "tries": _tries(outcome.attempts for outcome in outcomes),
        "reclaims": sum(outcome.reclaims for outcome in outcomes),
        "slow": [[outcome.index, round(outcome.wall_seconds, 3), outcome.attempts] for outcome in slowest],
        "reasons": dict(Counter(outcome.reason for outcome in outcomes if outcome.reason is not None)),
    }
    for step in _STEPS:
        for name, sketch in sketches.items():
            total, largest = round(sum(values[name]), 3), round(max(values[name]), 3)
            digest[name] = {"sum": total, "max": largest, "h": sketch.packed(step)}
        if len(json.dumps(digest, separators=(",", ":"))) <= MOST_BYTES:
            break
    return digest


def _tries(attempts: Iterable[int]) -> list[int]:
    """Items that ran once, twice, and more often."""
    counts = Counter(min(max(count, 1), 3) for count in attempts)
    return [counts[1], counts[2], counts[3]]
