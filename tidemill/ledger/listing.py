"""One look at a job: what the names of its objects tell, in as few requests as there are names."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tidemill import layout
from tidemill.completion import settle
from tidemill.ledger.records import Record
from tidemill.ledger.rounds import Round
from tidemill.store import PAGE, Entry, Store

if TYPE_CHECKING:
    from tidemill.manifest import ManifestIndex


@dataclass(frozen=True)
class Counts:
    """A job in numbers, from names alone."""

    items: int
    succeeded: int
    failed: int
    chunks_total: int
    chunks_done: int
    """Chunks with an outcome for every item that the newest round which enqueued them runs."""
    reclaims: int
    """Attempts on chunks that ended by a drain."""
    start_failures: int
    cancelled: bool
    rounds: int
    shared: int = 0
    """Items that succeeded in an earlier job, and did not run in this one."""

    @property
    def remaining(self) -> int:
        return self.items - self.succeeded - self.failed

    @property
    def finished(self) -> bool:
        return self.chunks_done == self.chunks_total


@dataclass(frozen=True)
class RetryProgress:
    """Items that run again though they have an outcome: retries that are not over.

    Attributes:
        since: The first round of them.
        items: How many they are.
        ended: Those of them with a new outcome.
        failed: Those of them that failed again.
    """

    since: int
    items: int
    ended: int
    failed: int


@dataclass(frozen=True)
class Listing:
    """A job at one moment, from the names of its objects.

    Attributes:
        counts: The job in numbers.
        rounds: Every round, oldest first.
        done: By round: the chunks that are committed in it, each with the time of its record (seconds since the epoch).
        failed: By chunk: how many of its items have failed, where any has.
        waiting: Chunks that the newest round which enqueued them has not done.
        cancellation: Content of the tombstone, where it covers the newest round.
        again: Items that run again, where any do.
    """

    counts: Counts
    rounds: list[Round]
    done: dict[int, dict[int, float]]
    failed: dict[int, int]
    waiting: set[int] = field(default_factory=set)
    cancellation: dict[str, Any] | None = None
    again: RetryProgress | None = None


@dataclass
class RoundNames:
    """The names of one round."""

    done: dict[int, float]
    failed: dict[int, int]
    reclaims: int
    start_failures: int


def read_names(store: Store, job: str, round_: Round, pool: ThreadPoolExecutor) -> RoundNames:
    """List a round, long folders in parts side by side.

    Markers of failures are listed after the records: each is written before its record, so none is missed.
    """
    chunks = [chunk for array in round_.arrays for chunk in array.all()]

    def folder(kind: str) -> str:
        return layout.of_round(job, round_.round, kind)

    kinds = ("drained", "start_failures")
    counted = [pool.submit(lambda kind=kind: sum(1 for _ in store.list(folder(kind)))) for kind in kinds]
    possible = (layout.done(job, round_.round, chunk) for chunk in chunks)
    done = in_parts(store, folder("done"), possible, pool)
    # A marker's name continues after its first "~" with digits, which sort before a second one.
    ends = (f"{layout.failed(job, round_.round, chunk, 0)[:-1]}~" for chunk in chunks)
    failed = in_parts(store, folder("failed"), ends, pool)
    ended = _ended(store, (job, round_.round), done, failed, pool.map)
    return RoundNames(*ended, reclaims=counted[0].result(), start_failures=counted[1].result())


def read_part(store: Store, job: str, number: int, shard: str) -> tuple[dict[int, float], dict[int, int]]:
    """`done` and `failed` of the chunks of one of a round's shards, or of all of them if it is empty."""
    done, failed = (list(store.entries(f"{layout.of_round(job, number, kind)}/{shard}")) for kind in ("done", "failed"))
    return _ended(store, (job, number), done, failed, map)


def _ended(
    store: Store, of: tuple[str, int], done: Iterable[Entry], failed: Iterable[Entry], each: Any
) -> tuple[dict[int, float], dict[int, int]]:
    """Of a job's round, by chunk: the time of its record, and how many of its items failed. `each` is a `map`."""
    committed = {layout.chunk_of_done(entry.name): entry.modified for entry in done}
    markers = [layout.chunk_of_marker(entry.name) for entry in failed]
    marked = Counter(chunk for chunk, _ in markers)
    disputed = [chunk for chunk, marks in marked.items() if marks > 1 and chunk in committed]

    def settled(chunk: int) -> int:
        name = layout.done(*of, chunk)
        return Record.decode(store.get(name), store.uri_of(name)).header.failed

    counts = {chunk: int(count) for chunk, count in markers}
    return committed, counts | dict(zip(disputed, each(settled, disputed), strict=True))


def in_parts(store: Store, folder: str, possible: Iterable[str], pool: ThreadPoolExecutor) -> list[Entry]:
    """Everything in a folder; the parts of a long one are listed at the same time.

    `possible` has names in the folder or names that sort after them, and its last one sorts after every name.
    """
    return _rest(store, folder, store.page(folder), possible, pool)


def _rest(
    store: Store, folder: str, first: list[Entry], possible: Iterable[str], pool: ThreadPoolExecutor
) -> list[Entry]:
    """Everything in a folder whose names are known beforehand, after its first page.

    A listing is a chain: each page begins where the one before ended. As the names are known, the chain can be cut
    where pages will end, and its parts be listed side by side, with no more requests than the chain has. How full the
    folder is, the first page tells.
    """
    if len(first) < PAGE or not store.is_object_store:
        return first
    ahead = sorted(possible)
    # Of so many possible names a page was there. A part of a thousand possible names is one page for certain; a longer
    # one is cut a little short, so that it hardly ever needs a second page for its last few names.
    listed = bisect_right(ahead, first[-1].name)
    step = max(PAGE, int(0.9 * listed))
    cuts = [first[-1].name, *ahead[listed + step - 1 : -1 : step], ahead[-1]]
    parts = pool.map(lambda cut: list(_part(store, folder, *cut)), pairwise(cuts))
    return [*first, *(entry for part in parts for entry in part)]


def _part(store: Store, folder: str, after: str, end: str) -> Iterator[Entry]:
    """Names after one, up to and with another."""
    for entry in store.entries(folder, after):
        if entry.name > end:
            return
        yield entry
        if entry.name == end:
            return


def combine(
    rounds: Sequence[Round], read: Sequence[RoundNames], index: ManifestIndex, cancellation: dict[str, Any] | None
) -> Listing:
    """The listing that the names of all rounds add up to."""
    waiting, failed = settle(index.chunks, rounds, [seen.done for seen in read], [seen.failed for seen in read])
    shared = _shared(rounds, index)
    with_outcome = dict(shared)
    for round_, seen in zip(rounds, read, strict=True):
        for chunk in seen.done:
            # What the first round does not run, an earlier job has.
            with_outcome[chunk] = max(
                with_outcome.get(chunk, 0), index.size(chunk) if rounds[0].shared else round_.size(chunk, index)
            )
    failures = sum(failed.values())
    counts = Counts(
        items=index.items,
        succeeded=sum(with_outcome.values()) - failures,
        failed=failures,
        chunks_total=index.chunks,
        chunks_done=index.chunks - len(waiting),
        reclaims=sum(seen.reclaims for seen in read),
        start_failures=sum(seen.start_failures for seen in read),
        cancelled=cancellation is not None,
        rounds=len(rounds),
        shared=sum(shared.values()) - _run_after_all(rounds, read, index),
    )
    done = {round_.round: seen.done for round_, seen in zip(rounds, read, strict=True)}
    left = {chunk: n for chunk, n in failed.items() if n}
    return Listing(counts, list(rounds), done, left, waiting, cancellation, _again(rounds, read, index, waiting))


def _shared(rounds: Sequence[Round], index: ManifestIndex) -> dict[int, int]:
    """By chunk: how many of its outcomes are shared."""
    if not rounds or not rounds[0].shared:
        return {}
    enqueued = set(rounds[0].enqueued())
    ran = ((chunk, rounds[0].size(chunk, index) if chunk in enqueued else 0) for chunk in range(index.chunks))
    return {chunk: index.size(chunk) - items for chunk, items in ran if items < index.size(chunk)}


def _run_after_all(rounds: Sequence[Round], read: Sequence[RoundNames], index: ManifestIndex) -> int:
    """How many items with a shared outcome have one of their own since: a later round has run them."""
    if not rounds or not rounds[0].shared:
        return 0
    enqueued, again = set(rounds[0].enqueued()), set[int]()
    for round_, seen in zip(rounds[1:], read[1:], strict=True):
        for chunk in seen.done:
            first = index.frame(chunk).first
            whole = range(first, first + index.size(chunk))
            before = rounds[0].runs(chunk) if chunk in enqueued else []
            if before is not None:
                again.update(set(round_.runs(chunk) or whole).difference(before))
    return len(again)


def _again(
    rounds: Sequence[Round], read: Sequence[RoundNames], index: ManifestIndex, waiting: set[int]
) -> RetryProgress | None:
    """Items that run again, or None.

    It begins with the first round that has enqueued a waiting chunk since that chunk was last done, so that what such a
    round has finished already stays in its count, and earlier retries, which are over, do not.
    """
    first: dict[int, int] = {}
    had_outcome = waiting.intersection(_shared(rounds, index)) - set(rounds[0].enqueued() if rounds else ())
    for round_, seen in zip(rounds, read, strict=True):
        for chunk in waiting.intersection(chunk for array in round_.arrays for chunk in array.all()):
            if chunk in seen.done:
                had_outcome.add(chunk)
                first.pop(chunk, None)
            else:
                first.setdefault(chunk, round_.round)
    since = min((first[chunk] for chunk in had_outcome), default=None)
    if since is None:
        return None
    before = had_outcome | {chunk for seen in read[:since] for chunk in seen.done}
    sizes: dict[int, int] = {}
    failed: dict[int, int] = {}
    for round_, seen in zip(rounds[since:], read[since:], strict=True):
        enqueued = (chunk for array in round_.arrays for chunk in array.all())
        sizes |= {chunk: round_.size(chunk, index) for chunk in enqueued if chunk in before}
        failed |= {chunk: seen.failed.get(chunk, 0) for chunk in seen.done}
    ended = sizes.keys() & failed.keys() - waiting
    return RetryProgress(
        since, sum(sizes.values()), sum(sizes[chunk] for chunk in ended), sum(failed[chunk] for chunk in ended)
    )
