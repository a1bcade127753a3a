"""The ledger of one job: what was asked for, what is done, what became of each item."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from tidemill import layout
from tidemill.errors import decoding
from tidemill.job import JobSpec
from tidemill.ledger.chosen_rows import ChosenRows
from tidemill.ledger.chunk import ChunkLedger
from tidemill.ledger.documents import UnreadableError, parse_document, read_document
from tidemill.ledger.ends import note_round
from tidemill.ledger.listing import Counts, Listing, combine, in_parts, read_names
from tidemill.ledger.outcome_sources import OutcomeSources, ended_chunks
from tidemill.ledger.records import Outcome
from tidemill.ledger.removal_mark import RemovedError, is_removed
from tidemill.ledger.rounds import Round
from tidemill.ledger.shared import SharedOutcomes, SharedReader
from tidemill.ledger.tombstone import bury, covering
from tidemill.manifest import ManifestIndex
from tidemill.store import PAGE, Store
from tidemill.store.ahead import in_order

START_FAILURES = 5
"""Failed starts of the user's code, without a success, after which the job cancels itself."""
ALIVE_SECONDS = 300.0
"""A worker updates a held chunk's marker every minute; one this old means that the chunk is no longer held."""
INLINE_CHUNKS = 256
"""A round of more chunks than this keeps their lists in a separate object."""
_PARALLEL = 16
_ROUNDS_AT_ONCE = 4


class Ledger:
    """The ledger of one job in a store. Creating it reads nothing.

    Args:
        store: The job store.
        job: The job's id.
        manifest: What the SHA-256 of the manifest's index must be, as the spec states it.
    """

    def __init__(self, store: Store, job: str, manifest: str | None = None) -> None:
        self.store, self.job, self._manifest = store, job, manifest
        self._index: ManifestIndex | None = None
        self._rounds: list[Round] = []
        self._shared: tuple[SharedOutcomes, SharedReader] | None = None

    # ---- the spec and the rounds --------------------------------------------------------------------------------

    def spec(self, sha256: str | None = None) -> JobSpec:
        """The job's spec, whose bytes must have this SHA-256 if it is given (see `read_document` for the errors).
        `RemovedError` for a job that is being removed."""
        try:
            return read_document(self.store, layout.spec(self.job), JobSpec, sha256)
        except UnreadableError:
            if is_removed(self.store, self.job):
                raise RemovedError(self.job) from None
            raise

    def round(self, number: int, sha256: str | None = None) -> Round:
        """A round (see `spec` for the errors)."""
        return self._attached(read_document(self.store, layout.round_(self.job, number), Round, sha256))

    def rounds(self) -> list[Round]:
        """Every round, oldest first. Rounds never change, so what was read is kept."""
        folder = layout.rounds(self.job)
        with decoding(self.store.uri_of(folder)):
            numbers = [int(name.rsplit("/", 1)[1].removesuffix(".json")) for name in self.store.list(folder)]
        read = self._rounds
        # Set at once: a worker's thread that tells the end of its job asks, too.
        self._rounds = [*read, *(self.round(number) for number in sorted(numbers)[len(read) :])]
        return list(self._rounds)

    def add_round(self, round_: Round, apart: bool = False) -> Round:
        """Write a round, unless its number is taken, and return the round that is stored under its number.

        Args:
            round_: The round.
            apart: Whether the workers can read the lists of a large round from an object of their own. Otherwise each
                of its containers reads and keeps the lists of all.
        """
        name, written = layout.round_(self.job, round_.round), round_
        if round_.round:
            note_round(self.store, self.job, round_.round)
        if apart and round_.chunks_total > INLINE_CHUNKS and round_.arrays[0].chunks is not None:
            written, data = round_.apart()
            self.store.put(layout.chosen(self.job, round_.round, str(written.chosen)), data)
        standing = self.store.create(name, written.model_dump_json().encode())
        if standing.ours:
            return round_
        return self._attached(parse_document(standing.content, self.store.uri_of(name), Round))

    def index(self) -> ManifestIndex:
        if self._index is None:
            self._index = ManifestIndex.load(self.store, self.job, self._manifest)
        return self._index

    def _attached(self, round_: Round) -> Round:
        if round_.chosen:
            round_.attach(ChosenRows(self.store, layout.chosen(self.job, round_.round, round_.chosen)))
        return round_

    def chunk(self, number: int, chunk: int) -> ChunkLedger:
        """The part about a chunk in a round."""
        key = layout.ChunkKey(self.job, number, chunk)
        return ChunkLedger(self.store, key, lambda: self._rounds if len(self._rounds) > number else self.rounds())

    # ---- the end before the end ---------------------------------------------------------------------------------

    def cancel(
        self, by: str = "", reason: str = "cancelled", rounds: int | None = None, max_usd: float | None = None
    ) -> int:
        """Write the tombstone: workers stop at once, and what is still queued ends without running.

        It covers the rounds that there are. A round that is written later (a resume, a retry) runs.

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
            bury(self.store, self.job, covers, by=by, reason=reason, max_usd=max_usd)
            # A round that was written meanwhile is cancelled with the others.
            if rounds is not None or len(self.rounds()) <= covers:
                return covers

    def is_cancelled(self, number: int | None = None) -> bool:
        """True if the tombstone covers a round; None for the newest."""
        return self.cancellation(number) is not None

    def cancellation(self, number: int | None = None) -> dict[str, Any] | None:
        """Content of the tombstone that covers a round (``by``, ``reason``, ``at``, ``max_usd``), or None."""
        data = self.store.find(layout.cancelled(self.job))
        if data is None:
            return None
        return covering(self.store, self.job, data, len(self.rounds()) - 1 if number is None else number)

    def start_failed(self, number: int, text: str) -> int:
        """Record that the user's code did not start, and return how often that has happened. After `START_FAILURES`
        times without a committed success the job cancels itself."""
        data = json.dumps({"error": text, "at": datetime.now(UTC).isoformat(timespec="microseconds")}).encode()
        for n in range(1, START_FAILURES + 1):
            if self.store.create(layout.start_failure(self.job, number, n), data).ours:
                if n == START_FAILURES and not self._any_success(number):
                    self.cancel("worker", f"the code does not start: {text}", number + 1)
                return n
        return START_FAILURES

    def _any_success(self, number: int) -> bool:
        for name in self.store.list(layout.of_round(self.job, number, "done")):
            record = self.chunk(number, layout.chunk_of_done(name)).committed()
            if record and any(outcome.status == "succeeded" for outcome in record.outcomes):
                return True
        return False

    def start_failures(self, number: int = 0) -> list[str]:
        names = self.store.list(layout.of_round(self.job, number, "start_failures"))
        with decoding(self.store.uri_of(layout.of_round(self.job, number, "start_failures"))):
            return [json.loads(data)["error"] for name in sorted(names) if (data := self.store.find(name))]

    # ---- the job, as a client sees it ---------------------------------------------------------------------------

    def done_chunks(self, number: int) -> set[int]:
        """Chunks committed in a round, by a listing of names."""
        return set(self.done_at(number))

    def done_at(self, number: int) -> dict[int, float]:
        """Chunks committed in a round, each with the time of its record by the store's clock."""
        folder = layout.of_round(self.job, number, "done")
        if not self.store.is_object_store:
            return {layout.chunk_of_done(entry.name): entry.modified for entry in self.store.entries(folder)}
        first = self.store.page(folder)
        if len(first) < PAGE:
            return {layout.chunk_of_done(entry.name): entry.modified for entry in first}
        with ThreadPoolExecutor(_PARALLEL) as pool:
            shards = pool.map(lambda shard: list(self.store.entries(f"{folder}/{shard}")), layout.SHARDS)
            return {layout.chunk_of_done(entry.name): entry.modified for shard in shards for entry in shard}

    def beating_chunks(self, number: int, now: float) -> set[int]:
        """Chunks of a round that a worker holds, or held a few minutes before `now` by the store's clock.

        Workers repeat their markers only where they have to extend leases.
        """
        folder = layout.of_round(self.job, number, "attempts")
        # "~" sorts after whatever an attempt is called.
        ends = (f"{folder}/{chunk}/~" for array in self.rounds()[number].arrays for chunk in array.all())
        with ThreadPoolExecutor(_PARALLEL) as pool:
            entries = in_parts(self.store, folder, ends, pool)
        fresh = (entry.name for entry in entries if entry.modified > now - ALIVE_SECONDS)
        return {int(name[len(folder) + 1 :].partition("/")[0]) for name in fresh}

    def listing(self) -> Listing:
        """The state of the job by the names of its objects; no record is read."""
        with ThreadPoolExecutor(_PARALLEL) as pool, ThreadPoolExecutor(_ROUNDS_AT_ONCE) as readers:
            index, cancelled = pool.submit(self.index), pool.submit(self.store.find, layout.cancelled(self.job))
            rounds = self.rounds()
            read = list(readers.map(lambda round_: read_names(self.store, self.job, round_, pool), rounds))
            data = cancelled.result()
            cancellation = None if data is None else covering(self.store, self.job, data, len(rounds) - 1)
            return combine(rounds, read, index.result(), cancellation)

    def counts(self) -> Counts:
        return self.listing().counts

    def shared(self) -> SharedOutcomes | None:
        """Where the outcomes are that the job shares with earlier ones; None where it shares none."""
        return found[0] if (found := self._sharing()) else None

    def origin(self, item: int) -> tuple[str, int] | None:
        """The job that computed an item's outcome, and its index there; None where the job has run the item itself at
        first."""
        shared = self.shared()
        run = next(shared.runs(item, item + 1), None) if shared else None
        return (shared.sources[run.source].job, run.origin) if shared and run else None

    def _sharing(self) -> tuple[SharedOutcomes, SharedReader] | None:
        first = self._rounds or self.rounds()
        if self._shared is None and first and (sha256 := first[0].shared):
            shared = SharedOutcomes.load(self.store, self.job, sha256)
            self._shared = shared, SharedReader(self.store, shared)
        return self._shared

    def merged(self, chunk: int, rounds: Iterable[int], unfinished: int | None = None) -> list[Outcome]:
        """The outcomes of a chunk in the items' order: those of `computed`, and for other items those that are
        shared. `StoreMissingError` for one that is not there any more."""
        own = self.computed(chunk, rounds, unfinished)
        if (sharing := self._sharing()) is None:
            return own
        frame, first = self.index().frame(chunk), self._rounds[0]
        whole = range(frame.first, frame.first + frame.items)
        # What the first round runs is its own, though the document may name an origin that was removed meanwhile.
        ran = (first.runs(chunk) or whole) if first.has(chunk) else ()
        without = {*ran, *(outcome.index for outcome in own)}
        found = {outcome.index: outcome for outcome in sharing[1].outcomes(whole.start, whole.stop, without)}
        found.update((outcome.index, outcome) for outcome in own)
        return [found[index] for index in sorted(found)]

    def computed(self, chunk: int, rounds: Iterable[int], unfinished: int | None = None) -> list[Outcome]:
        """The job's own outcomes of a chunk in the items' order, each that of the highest of some rounds (in order)
        with one; and what attempts of an `unfinished` round have finished."""
        merged: dict[int, Outcome] = {}
        for number in rounds:
            record = self.chunk(number, chunk).committed()
            merged.update({outcome.index: outcome for outcome in record.outcomes} if record else {})
        if unfinished is not None:
            part = self.chunk(unfinished, chunk)
            merged |= part.carried_over() | part.progress()
        return [merged[index] for index in sorted(merged)]

    def outcomes(self, of: Collection[int] | None = None) -> Iterator[Outcome]:
        """The outcome of every item that has one, in the items' order: that of the highest round which has one, in its
        record or in the progress of a chunk that has none yet. Records are read ahead. `of` are the chunks to read;
        None for all."""
        ended = ended_chunks(self.store, self.job, self.rounds(), self.done_at)
        if shared := self.shared():
            index = self.index()
            with_shared = {
                chunk
                for run in shared.runs()
                for chunk in range(index.chunk_of(run.first), index.chunk_of(run.first + run.items - 1) + 1)
            }
            ended = {chunk: ended.get(chunk, OutcomeSources()) for chunk in sorted(with_shared | ended.keys())}
        chunks = (chunk for chunk in ended if of is None or chunk in of)
        with ThreadPoolExecutor(_PARALLEL) as pool:
            read = lambda chunk: self.merged(chunk, ended[chunk].rounds, ended[chunk].unfinished)  # noqa: E731
            yield from chain.from_iterable(in_order(pool, read, chunks, 2 * _PARALLEL))
