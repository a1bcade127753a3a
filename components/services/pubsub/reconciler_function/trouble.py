"""Troubles of a queue that people should hear of: pure functions of the reconciler's readings. Standard library only.

An alert policy matches the line of each trouble, so a cause is logged once per half-hour while it lasts, not each run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidemill.fleet import QueueReport

from .decide import BROKEN_SECONDS, QueueState

CAPPED = "CAPPED_AT_MAX_NUM_REPLICAS"
"""Google's note of an autoscaler that wants more machines than `max_cpus` allows."""
SAID_EVERY_SECONDS = 1800
WAITED_SECONDS = 900
"""How long work must wait without any machine. A healthy cold start takes up to five minutes, plus the metric's delay
of three."""


@dataclass(frozen=True)
class Trouble:
    """A cause, and what people read."""

    cause: str
    text: str


def due(now: float, period: float) -> bool:
    """True if this run reports troubles: it is the first of a half-hour."""
    return now % SAID_EVERY_SECONDS < period


def full(shown: QueueReport) -> bool:
    """True if work waits and an open rung may have no more machines."""
    notes = [note.type for group in shown.groups.values() if group.open is not False for note in group.notes]
    return bool(shown.backlog) and CAPPED in notes


def troubles(queue: QueueState, shown: QueueReport, now: float) -> Iterator[Trouble]:
    """Troubles that a queue has now."""
    machines = [machine for group in queue.groups for machine in group.machines or ()]
    up = any(machine.state == "up" for machine in machines)
    for market, group in shown.groups.items():
        if group.quotas:
            yield Trouble("quota", f"{market} machines cannot be created: {group.quotas[0]}")
    if _waits(queue, now) and not up:
        dry = [market for market, group in shown.groups.items() if group.stockout]
        why = f"; {' and '.join(dry)} is in stockout" if dry else ""
        yield Trouble("no-machines", f"work has waited for 15 minutes and no machine runs{why}")
    broken = [m for m in machines if m.broken_at is not None and now - m.broken_at < BROKEN_SECONDS]
    if broken:
        yield Trouble("broken", f"{len(broken)} machines could not run their worker within 15 minutes")
    silent = [machine for machine in machines if machine.silent(now)]
    if silent:
        yield Trouble("silent", f"the workers of {len(silent)} machines have been silent for half an hour")


def _waits(queue: QueueState, now: float) -> bool:
    """True if there was work at every sample of the last 15 minutes, as far as samples tell."""
    samples = [sample for sample in queue.backlog or () if sample.at >= now - WAITED_SECONDS]
    return len(samples) >= WAITED_SECONDS // 120 and all(sample.value > 0 for sample in samples)
