"""Observers of a chunk: each writes down one thing about it (progress, the marker of its attempt, what it costs).

A chunk calls its observers at the events below. They know nothing of each other, and the chunk nothing of what they
write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from tidemill.job import Item
from tidemill.ledger import ChunkLedger, History, MarkerWriter, Outcome
from tidemill.worker.lease import Lease

HEARTBEAT_SECONDS = 60.0
"""Seconds between two writes of the marker where only it shows that a worker has the chunk."""


class ObservedChunk(Protocol):
    """The part of a chunk that observers see."""

    lease: Lease
    history: History
    in_flight: set[int]
    broken: dict[int, str]

    @property
    def pending(self) -> Collection[Item]:
        """Items that have not started."""
        ...

    @property
    def running(self) -> set[int]:
        """Items that run at this moment."""
        ...


class ChunkObserver:
    """Follows a chunk from its lease to its end. Every event is optional.

    Args:
        pace: Least seconds between two calls of `on_tick`; the chunk adds a jitter.
    """

    def __init__(self, pace: float = 0.0) -> None:
        self.pace = pace
        self.due_at = time.monotonic() + pace
        """When `on_tick` is called next."""

    def on_open(self, chunk: ObservedChunk, outcomes: Sequence[Outcome], slots: int) -> None:
        """The chunk is leased; `found` are outcomes that its history decided; so many items can start at once."""

    def on_slots(self, slots: float) -> None:
        """So many slots run items of the chunk from now on; one whose item has more memory counts as several."""

    def on_start(self, chunk: ObservedChunk, items: Sequence[Item], *, alone: bool) -> None:
        """Items were put in flight; `alone` says that nothing else runs on this worker until they end."""

    def on_pause(self) -> None:
        """Nothing of the chunk runs while an item of another has the machine to itself."""

    def on_item(self, chunk: ObservedChunk, outcome: Outcome) -> None:
        """An item has its outcome."""

    def on_tick(self, chunk: ObservedChunk) -> None:
        """Time has passed."""

    def on_commit(self) -> None:
        """Every item has its outcome; the record is about to be written."""

    def on_committed(self) -> None:
        """The record stands, and the chunk is acknowledged."""

    def on_end(self, chunk: ObservedChunk, how: str | None) -> None:
        """The attempt ends without a commit: `how` is what its marker says, None where it states that already."""


class Progress(ChunkObserver):
    """Writes what was finished, so that a later attempt does not run it again."""

    def __init__(self, ledger: ChunkLedger, pace: float) -> None:
        super().__init__(pace)
        self._ledger = ledger
        self._unsaved: list[Outcome] = []
        self._parts = 0

    def on_open(self, chunk: ObservedChunk, outcomes: Sequence[Outcome], slots: int) -> None:
        # Outcomes found here outlive this delivery and this round.
        self._unsaved += outcomes
        self._save(chunk)

    def on_item(self, chunk: ObservedChunk, outcome: Outcome) -> None:
        self._unsaved.append(outcome)
        if chunk.history.careful:
            self._save(chunk)

    def on_tick(self, chunk: ObservedChunk) -> None:
        self._save(chunk)

    def on_end(self, chunk: ObservedChunk, how: str | None) -> None:
        self._save(chunk)

    def _save(self, chunk: ObservedChunk) -> None:
        if self._unsaved:
            self._ledger.write_progress(chunk.lease.id, self._parts, list(self._unsaved))
            self._parts += 1
            self._unsaved.clear()
            chunk.lease.progressed()


class Marker(ChunkObserver):
    """Writes which items are in flight, which tells who is to blame when the worker dies, and repeats that as a
    heartbeat. A drain says what it ends."""

    def __init__(
        self,
        writer: MarkerWriter,
        pace: float,
        heartbeat_seconds: float | None,
        interrupted: Callable[[], Mapping[str, Any]],
    ) -> None:
        super().__init__(pace)
        self._writer, self._every, self._interrupted = writer, heartbeat_seconds, interrupted
        if heartbeat_seconds:
            writer.beats(heartbeat_seconds)
        self._marked: set[int] = set()
        self._alone = False
        self._marked_at = 0.0

    def write(self, in_flight: set[int], *, alone: bool = False) -> None:
        self._writer.write(in_flight, alone=alone)
        self._marked, self._alone, self._marked_at = in_flight, alone, time.monotonic()

    def on_open(self, chunk: ObservedChunk, outcomes: Sequence[Outcome], slots: int) -> None:
        # A careful attempt names each item before it starts. An item that cannot start yet is not to blame.
        self.write({item.index for item in islice(chunk.pending, 0 if chunk.history.careful else slots)})

    def on_start(self, chunk: ObservedChunk, items: Sequence[Item], *, alone: bool) -> None:
        if chunk.history.careful:
            self.write(set(chunk.in_flight), alone=alone)
        elif not self._marked:
            # A marker that names no item blames none.
            self.write({items[0].index})

    def on_pause(self) -> None:
        if self._marked:
            self.write(set())

    def on_tick(self, chunk: ObservedChunk) -> None:
        beats = self._every is not None and time.monotonic() >= self._marked_at + self._every
        running = chunk.running
        if chunk.in_flight and not running:
            # A slot is between two items: either may be to blame.
            running = self._marked
        if running != self._marked or beats:
            self.write(running, alone=self._alone and running == self._marked)

    def on_end(self, chunk: ObservedChunk, how: str | None) -> None:
        errors: Mapping[int, str] = chunk.broken
        if how == "drained":
            self._writer.drained(chunk.running, self._interrupted())
        elif how and errors:
            self._writer.broke(errors)
        elif how:
            self._writer.ended(how)
