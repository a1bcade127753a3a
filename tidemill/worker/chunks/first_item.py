"""Notes how long a job waited for its first item: once for the job, and as an event for the stack's metrics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tidemill.job import Item
from tidemill.ledger.first_item import note_first_item
from tidemill.worker.chunks.jobs import LeasedJob
from tidemill.worker.chunks.observers import ChunkObserver, ObservedChunk
from tidemill.worker.output import log_event

SOON_SECONDS = 2.0
"""From the start of an item until the note, which no program waits for."""


class FirstItem(ChunkObserver):
    """Notes the first item of a job, from the first chunk of it that runs here."""

    def __init__(self, job: LeasedJob, attempt: str) -> None:
        super().__init__(SOON_SECONDS)
        self._job, self._attempt = job, attempt
        self._at: datetime | None = None

    def on_start(self, chunk: ObservedChunk, items: Sequence[Item], *, alone: bool) -> None:
        self._at = self._at or datetime.now(UTC)

    def on_tick(self, chunk: ObservedChunk) -> None:
        self._note()

    def on_commit(self) -> None:
        self._note()

    def _note(self) -> None:
        if self._at is None or self._job.first_item_noted:
            return
        waited = note_first_item(self._job.ledger.store, self._job.spec, self._at, self._attempt)
        self._job.first_item_noted = True
        if waited is not None:
            log_event(
                "first_item", "the job's first item has started", job=self._job.id, waited_ms=round(1000 * waited)
            )
