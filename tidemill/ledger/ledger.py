"""The ledger of one job: what was asked for, what is done, what became of each item."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from tidemill import layout
from tidemill.errors import DamagedError, StoreError, decoding
from tidemill.job import JobSpec
from tidemill.ledger.attempts import History, MarkerWriter, read_history
from tidemill.ledger.chosen import Chosen
from tidemill.ledger.records import Header, Outcome, Record, encode_lines, parse_lines
from tidemill.ledger.rounds import Round
from tidemill.ledger.snapshot import Counts, Snapshot, combine, in_parts, read_names
from tidemill.manifest import ManifestIndex
from tidemill.store import Store
from tidemill.version import __version__

START_FAILURES = 5
"""Runs of the user's code that never started, without a success, after which the job cancels itself."""
ALIVE_SECONDS = 300.0
"""A worker writes of a chunk that it holds once a minute; one that has not for this long holds it no more."""
INLINE_CHUNKS = 256
"""A round of more chunks than this keeps their lists in an object of their own."""
_PARALLEL = 16
_ROUNDS_AT_ONCE = 4


@dataclass(frozen=True)
class Commit:
    """How a commit ended."""

    won: bool
    """True when the record in the store is ours."""
    record: Record
    """The record that stands."""


class Ledger:
    """The ledger of one job in a store. Cheap to make: nothing is read before it is asked for.

    Args:
        store: The job store.
        job: The job's id.
        manifest: SHA-256 of the manifest's index, as the spec has it, to hold the index against.
    """

    def __init__(self, store: Store, job: str, manifest: str | None = None) -> None:
        self.store, self.job, self._manifest = store, job, manifest
        self._index: ManifestIndex | None = None
        self._rounds: list[Round] = []

    # ---- the spec and the rounds --------------------------------------------------------------------------------

    def spec(self, sha256: str | None = None) -> JobSpec:
        """The job's spec.

        Args:
            sha256: What its bytes must hash to, when known.

        Raises:
            StoreMissing: There is no such job.
            TamperedError: It is another one.
            UnreadableError: It was written for a newer Tidemill.
            DamagedError: It is not JSON.
        """
        return self._read(layout.spec(self.job), JobSpec, sha256)

    def round(self, number: int, sha256: str | None = None) -> Round:
        """A round (see `spec` for the errors)."""
        return self._read(layout.round_(self.job, number), Round, sha256)

    def rounds(self) -> list[Round]:
        """Every round, oldest first. Rounds never change, so what was read is kept."""
        folder = layout.rounds(self.job)
        with decoding(self.store.uri_of(folder)):
            found = [int(name.rsplit("/", 1)[1].removesuffix(".json")) for name in self.store.list(folder)]
        known = len(self._rounds)
        self._rounds += [self.round(number) for number in sorted(found)[known:]]
        return list(self._rounds)

    def add_round(self, round_: Round, apart: bool = False) -> Round:
        """Write a round, if none has its number yet.

        Args:
            round_: The round.
            apart: Whether the workers can read the lists of a large round from an object of their own. Each container
                of it would else read and keep the lists of all.

        Returns:
            The round itself when it was written, and otherwise the one that somebody else wrote before.
        """
        name, written = layout.round_(self.job, round_.round), round_
        if apart and round_.chunks_total > INLINE_CHUNKS and round_.arrays[0].chunks is not None:
            written, data = round_.apart()
            self.store.put(layout.chosen(self.job, round_.round, str(written.chosen)), data)
        standing = self.store.create(name, written.model_dump_json().encode())
        return round_ if standing.ours else self._parsed(standing.content, name, Round)

    def index(self) -> ManifestIndex:
        """The manifest's index, read once."""
        if self._index is None:
            self._index = ManifestIndex.load(self.store, self.job, self._manifest)
        return self._index

    def _read(self, name: str, model: type[Any], sha256: str | None) -> Any:
        data = self.store.get(name)
        if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
            raise TamperedError(f"{self.store.uri_of(name)} is not what was submitted: its SHA-256 differs.")
        return self._parsed(data, name, model)

    def _parsed(self, data: bytes, name: str, model: type[Any]) -> Any:
        try:
            found = model.model_validate_json(data)
            if isinstance(found, Round) and found.chosen:
                found.attach(Chosen(self.store, layout.chosen(self.job, found.round, found.chosen)))
            return found
        except ValidationError as error:
            first = error.errors()[0]
            if first["type"] == "json_invalid":
                raise DamagedError(f"{self.store.uri_of(name)} is damaged: {first['msg']}.") from None
            where = ".".join(str(part) for part in first["loc"])
            raise UnreadableError(
                f"{self.store.uri_of(name)} cannot be read by Tidemill {__version__}: {where}: {first['msg']}.",
                "A newer Tidemill may have written it: update this one.",
            ) from None

    # ---- a chunk, as a worker sees it ---------------------------------------------------------------------------

    def committed(self, number: int, chunk: int) -> Record | None:
        """The record of a chunk in a round, or None."""
        name = layout.done(self.job, number, chunk)
        data = self.store.find(name)
        return None if data is None else Record.decode(data, self.store.uri_of(name))

    def history(self, number: int, chunk: int) -> History:
        """What earlier attempts on a chunk tell: in a round, and in those that it goes on with."""
        rounds = (number, *self._goes_on_with(number, chunk))
        return read_history(self.store, [layout.ChunkKey(self.job, round_, chunk) for round_ in rounds])

    def marker(self, number: int, chunk: int, attempt: str, delivery: int, backend: dict[str, Any]) -> MarkerWriter:
        """This attempt's marker; nothing is written yet."""
        return MarkerWriter(
            self.store, layout.ChunkKey(self.job, number, chunk), attempt, delivery=delivery, backend=backend
        )

    def progress(self, number: int, chunk: int) -> dict[int, Outcome]:
        """By item: what any attempt on a chunk has finished in a round."""
        found: dict[int, Outcome] = {}
        for name in self.store.list(layout.progress(self.job, number, chunk)):
            data = self.store.find(name)
            with decoding(self.store.uri_of(name)):
                for outcome in parse_lines((data or b"").splitlines()):
                    found.setdefault(outcome.index, outcome)
        return found

    def carried_over(self, number: int, chunk: int) -> dict[int, Outcome]:
        """By item: what the rounds that a round goes on with have finished of a chunk."""
        found: dict[int, Outcome] = {}
        for earlier in self._goes_on_with(number, chunk):
            found = self.progress(earlier, chunk) | found
        return found

    def _goes_on_with(self, number: int, chunk: int) -> list[int]:
        """The earlier rounds whose work on a chunk a round goes on with, newest first.

        A round goes on with the one before it that enqueued the chunk when that one never committed it (so it was lost
        or cancelled: a retry is of committed chunks only) and ran the same items with the same code and image.
        """
        if number == 0:
            return []
        found: list[int] = []
        rounds = self._rounds if len(self._rounds) > number else self.rounds()
        for earlier in reversed(rounds[:number]):
            if not earlier.has(chunk):
                continue
            same = earlier.runs_as(rounds[number], chunk)
            if not same or self.store.exists(layout.done(self.job, earlier.round, chunk)):
                break
            found.append(earlier.round)
        return found

    def write_progress(self, number: int, chunk: int, attempt: str, part: int, outcomes: Iterable[Outcome]) -> None:
        """Write what an attempt has finished since its last part."""
        self.store.put(f"{layout.progress(self.job, number, chunk)}/{attempt}.{part}.jsonl", encode_lines(outcomes))

    def commit(
        self,
        number: int,
        chunk: int,
        attempt: str,
        outcomes: list[Outcome],
        *,
        worker: str = "",
        backend: dict[str, Any] | None = None,
        first: bool = True,
    ) -> Commit:
        """Commit a chunk's outcomes: the first to do so wins. Acknowledge the chunk only after this returned.

        The marker that says how many items failed is written before the record, so that nobody sees a record whose
        failures are not counted yet. An attempt that dies between the two, or loses, leaves a marker that the record
        does not bear out; the next attempt adds its own, and of several markers the record decides.

        Args:
            number: The round.
            chunk: The chunk.
            attempt: Whose outcomes they are.
            outcomes: Of every item that the round runs.
            worker: Which worker commits, for people.
            backend: What the backend calls this run.
            first: Whether there was no earlier attempt on the chunk in this round, which may have left a marker.

        Raises:
            StoreError: It is not certain that a record stands.
        """
        failed = sum(outcome.status == "failed" for outcome in outcomes)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        header = Header(chunk, attempt, number, worker, len(outcomes), failed, now, backend or {})
        ours = Record(header, outcomes)
        if failed or not first:
            self.derive_marker(ours)
        name = layout.done(self.job, number, chunk)
        created = self.store.create(name, ours.encode())
        if created.ours:
            return Commit(True, ours)
        standing = Record.decode(created.content, self.store.uri_of(name))
        self.derive_marker(standing)
        return Commit(False, standing)

    def derive_marker(self, record: Record) -> None:
        """Write the marker of a record (the same one, however often)."""
        failed = sum(outcome.status == "failed" for outcome in record.outcomes)
        self.store.put(layout.failed(self.job, record.header.round, record.header.chunk, failed), b"")

    # ---- the end before the end ---------------------------------------------------------------------------------

    def cancel(
        self, by: str = "", reason: str = "cancelled", rounds: int | None = None, max_usd: float | None = None
    ) -> int:
        """Write the tombstone: workers stop at once, and what is still queued ends without running.

        It covers the rounds that there are. A round that is written later (a resume, a retry) runs.

        The first tombstone says how many rounds it covers. What a later one covers beyond it gets an object for each
        round, which is only ever created: two people who cancel at once take nothing away from each other.

        Args:
            by: Who cancels.
            reason: Why, for people.
            rounds: How many rounds it covers; None for all of now.
            max_usd: The limit that ended the job, when one did.

        Returns:
            How many rounds are covered.
        """
        while True:
            covers = max(1, len(self.rounds())) if rounds is None else rounds
            self._bury(covers, by, reason, max_usd)
            # A round that somebody has written meanwhile is cancelled with the others.
            if rounds is not None or len(self.rounds()) <= covers:
                return covers

    def _bury(self, covers: int, by: str, reason: str, max_usd: float | None) -> None:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        said: dict[str, Any] = {"by": by, "reason": reason, "at": at, "rounds": covers}
        note = json.dumps(said if max_usd is None else said | {"max_usd": max_usd}).encode()
        standing = self.store.create(layout.cancelled(self.job), note)
        there = _note(standing.content)
        if standing.ours or (there is not _UNREADABLE and _covers(there, covers - 1)):
            return
        for number in range(there.get("rounds", 0), covers):
            self.store.create(layout.cancelled_round(self.job, number), note)
        # Workers of version 0.1 look here alone.
        self.store.put(layout.cancelled(self.job), note)

    def is_cancelled(self, number: int | None = None) -> bool:
        """Whether the tombstone covers a round; None for the newest."""
        return self.cancellation(number) is not None

    def cancellation(self, number: int | None = None) -> dict[str, Any] | None:
        """What the tombstone that covers a round says (``by``, ``reason``, ``at``, ``max_usd``), or None."""
        data = self.store.find(layout.cancelled(self.job))
        if data is None:
            return None
        return self._covering(_note(data), len(self.rounds()) - 1 if number is None else number)

    def _covering(self, note: dict[str, Any], number: int) -> dict[str, Any] | None:
        """What the tombstone of a round says: the job's, or the round's own."""
        if _covers(note, number):
            return note
        data = self.store.find(layout.cancelled_round(self.job, number))
        return None if data is None else _note(data)

    def start_failed(self, number: int, text: str) -> int:
        """Record that the user's code did not start. After `START_FAILURES` of them without a committed success the
        job cancels itself.

        Returns:
            How many there are.
        """
        data = json.dumps({"error": text, "at": datetime.now(UTC).isoformat(timespec="microseconds")}).encode()
        for n in range(1, START_FAILURES + 1):
            if self.store.create(layout.start_failure(self.job, number, n), data).ours:
                if n == START_FAILURES and not self._any_success(number):
                    self.cancel("worker", f"the code does not start: {text}", number + 1)
                return n
        return START_FAILURES

    def _any_success(self, number: int) -> bool:
        for name in self.store.list(layout.of_round(self.job, number, "done")):
            record = self.committed(number, layout.chunk_of_done(name))
            if record and any(outcome.status == "succeeded" for outcome in record.outcomes):
                return True
        return False

    def start_failures(self, number: int = 0) -> list[str]:
        """What the runs that did not start said."""
        found = self.store.list(layout.of_round(self.job, number, "start_failures"))
        with decoding(self.store.uri_of(layout.of_round(self.job, number, "start_failures"))):
            return [json.loads(data)["error"] for name in sorted(found) if (data := self.store.find(name))]

    # ---- the job, as a client sees it ---------------------------------------------------------------------------

    def done_chunks(self, number: int) -> set[int]:
        """Chunks committed in a round, by a listing of names."""
        folder = layout.of_round(self.job, number, "done")
        if not self.store.is_object_store:
            return {layout.chunk_of_done(name) for name in self.store.list(folder)}
        with ThreadPoolExecutor(_PARALLEL) as pool:
            shards = pool.map(lambda shard: list(self.store.list(f"{folder}/{shard}")), layout.SHARDS)
            return {layout.chunk_of_done(name) for shard in shards for name in shard}

    def beating_chunks(self, number: int, now: float) -> set[int]:
        """Chunks of a round that a worker holds, or held a few minutes ago, by a listing of names.

        Only where leases have to be extended does a worker write its marker again once a minute.

        Args:
            number: The round.
            now: Seconds since the epoch, by the store's clock.
        """
        folder = layout.of_round(self.job, number, "attempts")
        # "~" sorts after whatever an attempt is called.
        ends = (f"{folder}/{chunk}/~" for array in self.rounds()[number].arrays for chunk in array.all())
        with ThreadPoolExecutor(_PARALLEL) as pool:
            found = in_parts(self.store, folder, ends, pool)
        fresh = (entry.name for entry in found if entry.modified > now - ALIVE_SECONDS)
        return {int(name[len(folder) + 1 :].partition("/")[0]) for name in fresh}

    def snapshot(self) -> Snapshot:
        """What the names of a job's objects say now: no record is read."""
        with ThreadPoolExecutor(_PARALLEL) as pool, ThreadPoolExecutor(_ROUNDS_AT_ONCE) as readers:
            index, tombstone = pool.submit(self.index), pool.submit(self.store.find, layout.cancelled(self.job))
            rounds = self.rounds()
            read = list(readers.map(lambda round_: read_names(self.store, self.job, round_, pool), rounds))
            data = tombstone.result()
            covering = None if data is None else self._covering(_note(data), len(rounds) - 1)
            return combine(rounds, read, index.result(), covering)

    def counts(self) -> Counts:
        """The job in numbers, from names alone."""
        return self.snapshot().counts

    def merged(self, chunk: int, rounds: Iterable[int]) -> list[Outcome]:
        """The outcomes of a chunk in the items' order, each that of the highest of some rounds (in order) with one."""
        merged: dict[int, Outcome] = {}
        for number in rounds:
            record = self.committed(number, chunk)
            merged.update({outcome.index: outcome for outcome in record.outcomes} if record else {})
        return [merged[index] for index in sorted(merged)]

    def outcomes(self) -> Iterator[Outcome]:
        """Every item's outcome in the items' order, that of the highest round which has one; records are read ahead."""
        done = [(round_.round, self.done_chunks(round_.round)) for round_ in self.rounds()]
        chunks = sorted(set().union(*(chunks for _, chunks in done)))
        with ThreadPoolExecutor(_PARALLEL) as pool:
            ahead: deque[Future[list[Outcome]]] = deque()
            for chunk in chunks:
                ahead.append(pool.submit(self.merged, chunk, [number for number, has in done if chunk in has]))
                if len(ahead) > 2 * _PARALLEL:
                    yield from ahead.popleft().result()
            while ahead:
                yield from ahead.popleft().result()


_UNREADABLE = {"by": "", "reason": "the tombstone cannot be read", "at": ""}
"""What a damaged tombstone is taken for: somebody did cancel, so it covers every round until another replaces it."""


def _note(data: bytes) -> dict[str, Any]:
    """What a tombstone says."""
    try:
        note = json.loads(data)
    except ValueError:
        return _UNREADABLE
    return note if isinstance(note, dict) else _UNREADABLE


def _covers(note: dict[str, Any], number: int) -> bool:
    """Whether a tombstone is meant for a round."""
    return number < note.get("rounds", number + 1)


class TamperedError(StoreError):
    """An object that never changes has changed. Trying again is useless."""


class UnreadableError(StoreError):
    """An object was written for a newer Tidemill. Trying again is useless."""
