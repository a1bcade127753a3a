"""The limit of a job's cost, which its workers enforce themselves.

Each lease of a chunk records how long it has held its slots: at its end and, while it runs, after five, ten, twenty, …
minutes, so that at least half of what is under way is known once it has run for five minutes. A worker that has
recorded something decides by chance whether to add up what all have recorded: a limit takes about `LOOKS` such sums,
however many workers there are, and one always follows a chunk that is a large part of the limit.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tidemill.job import CostLimit
from tidemill.layout import ChunkKey
from tidemill.ledger import Ledger, Round
from tidemill.ledger.spent_seconds import spent_seconds, write_spent
from tidemill.worker.chunks.digest_observer import SlotSeconds
from tidemill.worker.chunks.observers import ChunkObserver, ObservedChunk

FIRST_SECONDS = 300.0
"""Slot-seconds after which a running chunk first records its spending; then at each doubling."""
LOOKS = 64
"""Sums that all workers together take up to a limit: about a 64th of it may be passed unnoticed."""


class Spending(ChunkObserver):
    """Records how long a lease of a chunk holds slots, and calls `recorded` with the seconds that are new."""

    def __init__(
        self,
        ledger: Ledger,
        key: ChunkKey,
        lease_id: str,
        clock: Callable[[], float] = time.monotonic,
        recorded: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        super().__init__()
        self._ledger, self._key, self._lease_id, self._recorded = ledger, key, lease_id, recorded
        self._held = SlotSeconds(clock)
        self._written, self._write_at = 0.0, FIRST_SECONDS
        self._fresh = 0.0

    def on_slots(self, slots: float) -> None:
        self._held.holds(slots)

    def on_tick(self, chunk: ObservedChunk) -> None:
        if fresh := self.write():
            self._recorded(fresh)

    def on_commit(self) -> None:
        # Before the record: time of a worker that dies at its commit was paid for too.
        self._fresh = self.write(ends=True)

    def on_committed(self) -> None:
        if self._fresh:
            self._recorded(self._fresh)

    def on_end(self, chunk: ObservedChunk, how: str | None) -> None:
        # A drain still waits for programs; another end follows it.
        if how != "drained":
            self.write(ends=True)

    def write(self, *, ends: bool = False) -> float:
        """Record the seconds so far when it is time, or at the end; returns how many of them are new."""
        seconds = self._held.total
        if seconds <= self._written or not (ends or seconds >= self._write_at):
            return 0.0
        write_spent(self._ledger.store, self._key, self._lease_id, seconds)
        fresh, self._written, self._write_at = seconds - self._written, seconds, 2 * seconds
        return fresh


def ends_job(ledger: Ledger, limit: CostLimit, round_: Round, fresh: float) -> bool:
    """Check, by chance, whether a job has passed its limit, and if so write the tombstone. `fresh` seconds are new."""
    if random.random() * limit.seconds >= LOOKS * fresh:
        return False
    seconds = spent_seconds(ledger.store, ledger.job, round_.round + 1)
    # A finished job is not cancelled.
    if seconds < limit.seconds or ledger.counts().finished:
        return False
    ledger.cancel("worker", limit.reached(seconds), round_.round + 1, limit.max_usd)
    return True
