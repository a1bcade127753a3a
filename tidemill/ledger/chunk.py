"""One chunk in one round, as a worker needs it: the stored attempts, progress and record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidemill import layout
from tidemill.errors import decoding
from tidemill.ledger.attempts import History, MarkerWriter, read_history
from tidemill.ledger.digest import RunFacts, digest_of
from tidemill.ledger.records import Header, Outcome, Record, encode_lines, parse_lines
from tidemill.ledger.rounds import Round
from tidemill.store import Store


@dataclass(frozen=True)
class Commit:
    """How a commit ended."""

    won: bool
    """True when the record in the store is ours."""
    record: Record
    """The record in the store."""


class ChunkLedger:
    """The part of a job's ledger about a chunk in a round. `rounds` returns the rounds at least up to the chunk's
    own."""

    def __init__(self, store: Store, key: layout.ChunkKey, rounds: Callable[[], list[Round]]) -> None:
        self.store, self.key, self._rounds = store, key, rounds

    def committed(self) -> Record | None:
        name = layout.done(*self.key)
        data = self.store.find(name)
        return None if data is None else Record.decode(data, self.store.uri_of(name))

    def history(self) -> History:
        """Earlier attempts, in this round and in those whose work it continues."""
        return read_history(self.store, [self.key, *self._continued()])

    def marker(
        self, attempt: str, delivery: int, backend: dict[str, Any], machine: dict[str, Any] | None = None
    ) -> MarkerWriter:
        """An attempt's marker; nothing is written yet."""
        return MarkerWriter(self.store, self.key, attempt, delivery=delivery, backend=backend, machine=machine)

    def progress(self) -> dict[int, Outcome]:
        """By item: what any attempt has finished in this round."""
        return _progress(self.store, self.key)

    def carried_over(self) -> dict[int, Outcome]:
        """By item: what earlier rounds have finished of the work that this round continues."""
        outcomes: dict[int, Outcome] = {}
        for earlier in self._continued():
            outcomes = _progress(self.store, earlier) | outcomes
        return outcomes

    def _continued(self) -> list[layout.ChunkKey]:
        """The chunk in the earlier rounds whose work on it this round continues, newest first.

        A round continues the one before it that enqueued the chunk when that one never committed it (so it was lost or
        cancelled: only committed chunks are retried) and ran the same items with the same code and image.
        """
        job, number, chunk = self.key
        if number == 0:
            return []
        keys: list[layout.ChunkKey] = []
        rounds = self._rounds()
        for earlier in reversed(rounds[:number]):
            if not earlier.has(chunk):
                continue
            key = layout.ChunkKey(job, earlier.round, chunk)
            if not earlier.runs_as(rounds[number], chunk) or self.store.exists(layout.done(*key)):
                break
            keys.append(key)
        return keys

    def write_progress(self, attempt: str, part: int, outcomes: Iterable[Outcome]) -> None:
        """Write what an attempt has finished since its last part."""
        self.store.put(f"{layout.progress(*self.key)}/{attempt}.{part}.jsonl", encode_lines(outcomes))

    def write_metrics(self, attempt: str, data: bytes) -> None:
        """Write the metrics that an attempt has found so far, in place of what it wrote before."""
        self.store.put(layout.metrics(self.key, attempt), data)

    def commit(
        self,
        attempt: str,
        outcomes: list[Outcome],
        *,
        worker: str = "",
        backend: dict[str, Any] | None = None,
        first: bool = True,
        run: RunFacts | None = None,
    ) -> Commit:
        """Commit the chunk's outcomes: the first to do so wins. Acknowledge the chunk only after this returned.

        The marker that counts the failed items is written before the record, so that a visible record always has its
        failures counted. An attempt that dies between the two writes, or loses, leaves a marker that disagrees with
        the record. The next attempt adds its own, and where there are several markers the record decides.

        Args:
            attempt: The attempt that produced the outcomes.
            outcomes: Those of every item that the round runs.
            worker: The worker's name, for people.
            backend: What the backend calls this run.
            first: Whether no earlier attempt in this round can have left a marker.
            run: How the attempt went, for the digest; None leaves the digest out.

        Raises:
            StoreError: It is not certain that a record is in the store.
        """
        failed = sum(outcome.status == "failed" for outcome in outcomes)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        digest = run and digest_of(outcomes, run)
        header = Header(
            self.key.chunk, attempt, self.key.round, worker, len(outcomes), failed, now, backend or {}, digest
        )
        ours = Record(header, outcomes)
        if failed or not first:
            self.derive_marker(ours)
        name = layout.done(*self.key)
        created = self.store.create(name, ours.encode())
        if created.ours:
            return Commit(True, ours)
        standing = Record.decode(created.content, self.store.uri_of(name))
        self.derive_marker(standing)
        return Commit(False, standing)

    def derive_marker(self, record: Record) -> None:
        """Write the marker that counts a record's failed items. Writing it again changes nothing."""
        failed = sum(outcome.status == "failed" for outcome in record.outcomes)
        self.store.put(layout.failed(*self.key, failed), b"")


def _progress(store: Store, key: layout.ChunkKey) -> dict[int, Outcome]:
    outcomes: dict[int, Outcome] = {}
    for name in store.list(layout.progress(*key)):
        data = store.find(name)
        with decoding(store.uri_of(name)):
            for outcome in parse_lines((data or b"").splitlines()):
                outcomes.setdefault(outcome.index, outcome)
    return outcomes
