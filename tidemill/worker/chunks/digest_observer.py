"""Measurements of a chunk for the digest of its record."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from tidemill.ledger import Outcome
from tidemill.ledger.digest import RanOn, RunFacts, interrupted
from tidemill.worker.chunks.observers import ChunkObserver, ObservedChunk
from tidemill.worker.items.store_waits import StoreWaits


class SlotSeconds:
    """Seconds for which slots are held, whose number changes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slots, self._since, self._seconds = 0.0, clock(), 0.0

    def holds(self, slots: float) -> None:
        """So many slots are held from now on."""
        self._seconds, self._slots, self._since = self.total, slots, self._clock()

    @property
    def total(self) -> float:
        return self._seconds + self._slots * (self._clock() - self._since)


class DigestObserver(ChunkObserver):
    """Measures a chunk from its lease to its commit."""

    def __init__(self, machine: RanOn) -> None:
        super().__init__()
        self.waits = StoreWaits()
        self._machine, self._seconds, self._most = machine, SlotSeconds(), 1
        self._worked, self._succeeded = 0.0, 0
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")

    def on_open(self, chunk: ObservedChunk, outcomes: Sequence[Outcome], slots: int) -> None:
        self._most = slots

    def on_slots(self, slots: float) -> None:
        self._seconds.holds(slots)
        self._most = max(self._most, math.ceil(slots))

    def on_item(self, chunk: ObservedChunk, outcome: Outcome) -> None:
        self._worked += outcome.wall_seconds
        self._succeeded += outcome.status == "succeeded"

    def interrupted(self) -> dict[str, Any]:
        """Figures of the attempt if a drain ended it now."""
        return interrupted(self.run())

    def run(self) -> RunFacts:
        """Figures measured until now."""
        held, waits = self._seconds.total, self.waits
        measured = (held, waits.fetch, waits.upload, self._worked, self._succeeded)
        return RunFacts(self._started_at, self._machine, self._most, *measured)
