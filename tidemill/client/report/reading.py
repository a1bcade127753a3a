"""Reads the records of a job for its report: their heads, and a bounded number of those with failed items whole."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic_core import from_json

from tidemill import layout
from tidemill.client.failures import FailureGroup, add_failure
from tidemill.client.report.model import FailedGroup, Failing
from tidemill.client.report.totals import Totals, place_words
from tidemill.errors import decoding
from tidemill.failures import GroupKey
from tidemill.ledger import Ledger, Listing, Outcome
from tidemill.ledger.digest import VERSION, digest_of
from tidemill.ledger.records import Record
from tidemill.store import Store, read_heads

HEAD_BYTES, BYTES_PER_ITEM, LONGEST_HEAD = 640, 16, 8192
"""What is read of a record at first: its first line grows with its items, up to a bound."""
FAILING_CHUNKS = 2000
"""Chunks with failed items that are read whole, evenly over the job. Where there are more, the report says so."""
WHOLE_ITEMS = 20_000
"""Items of whole records that are in memory at once."""
GROUPS_SHOWN = 50
_PARALLEL = 16


T = TypeVar("T")


def evenly(values: Sequence[T], most: int) -> tuple[list[T], float]:
    """At most so many of some values, each from the middle of as many as it stands for; and how many those are."""
    step = max(1.0, len(values) / most)
    return [values[int((n + 0.5) * step)] for n in range(min(len(values), most))], step


def read_digests(
    store: Store, job: str, listing: Listing, totals: Totals, chunk_size: int, *, most: int | None = None
) -> float:
    """Add committed records to the totals: all of them, or at most so many, evenly over the job. A record of an older
    or newer worker, without a digest that we know, is read whole.

    Returns:
        How many records each one that was read stands for.
    """
    every = [layout.done(job, number, chunk) for number, chunks in listing.done.items() for chunk in chunks]
    names, step = evenly(every, most or max(1, len(every)))
    cut: list[str] = []
    plain: list[str] = []

    def take(position: int, data: bytes) -> None:
        line, found, _ = data.partition(b"\n")
        if not found:
            cut.append(names[position])
            return
        with decoding(store.uri_of(names[position])):
            head = from_json(line)
            digest = head.get("digest")
            if digest is None or digest["v"] != VERSION:
                plain.append(names[position])
            else:
                totals.add(head, digest)

    read_heads(store, names, min(LONGEST_HEAD, HEAD_BYTES + BYTES_PER_ITEM * chunk_size), take)
    if cut:
        names, cut = cut, []
        read_heads(store, names, LONGEST_HEAD, take)
    # A first line of an older worker may be longer still; with a digest none is (`tidemill.ledger.digest`).
    plain += cut
    totals.without_digest = len(plain)
    for record in _whole(store, plain, chunk_size):
        totals.add(record.header._asdict(), digest_of(record.outcomes))
    return step


def _whole(store: Store, names: Sequence[str], chunk_size: int) -> Iterator[Record]:
    """Whole records, few enough at a time to stay small."""
    at_once = max(1, min(_PARALLEL, WHOLE_ITEMS // chunk_size))
    with ThreadPoolExecutor(at_once) as pool:
        ahead: deque[Future[Record]] = deque()
        for name in names:
            ahead.append(pool.submit(lambda name=name: Record.decode(store.get(name), store.uri_of(name))))
            if len(ahead) >= at_once:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


@dataclass
class _Seen:
    """When and where a group failed."""

    first: str | None = None
    last: str | None = None
    places: Counter[str] = field(default_factory=Counter)

    def add(self, at: str, place: str) -> None:
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)
        self.places[place] += 1


def read_failures(ledger: Ledger, listing: Listing, everything: bool = False) -> Failing:
    """Failed items by group, from the records of chunks that have any: all of them, or `FAILING_CHUNKS`."""
    failing = sorted(listing.failed)
    chosen = failing if everything else evenly(failing, FAILING_CHUNKS)[0]
    groups: dict[GroupKey, FailureGroup] = {}
    seen: dict[str, _Seen] = {}
    failed = 0
    for header, outcome in _failed_outcomes(ledger, listing, chosen):
        failed += 1
        group = add_failure(groups, outcome)
        machine = (header.get("digest") or {}).get("machine") or {}
        words = place_words((machine.get("type"), None, machine.get("market")))
        place = f"{words}, {machine['zone']}" if machine.get("zone") else words
        seen.setdefault(group.id, _Seen()).add(header["committed_at"], place)
    scale = listing.counts.failed / failed if len(chosen) < len(failing) and failed else 1.0
    ranked = sorted(groups.values(), key=lambda group: (-group.count, group.items))
    found = [_described(group, seen[group.id], scale) for group in ranked[:GROUPS_SHOWN]]
    return Failing(found, len(failing), len(chosen))


def _described(group: FailureGroup, seen: _Seen, scale: float) -> FailedGroup:
    places = [words for words, _ in seen.places.most_common(5)]
    return FailedGroup(
        id=group.id,
        count=round(group.count * scale),
        reason=group.reason,
        exit_code=group.exit_code,
        message=group.message,
        items=group.items,
        first_at=seen.first,
        last_at=seen.last,
        places=places,
    )


def _failed_outcomes(
    ledger: Ledger, listing: Listing, chunks: Sequence[int]
) -> Iterator[tuple[Mapping[str, Any], Outcome]]:
    """Failed items that did not succeed later, each with the first line of its record."""

    def newest(chunk: int) -> list[tuple[Mapping[str, Any], Outcome]]:
        found: dict[int, tuple[Mapping[str, Any], Outcome]] = {}
        for number in (number for number, done in listing.done.items() if chunk in done):
            if record := ledger.chunk(number, chunk).committed():
                head = record.header._asdict()
                found.update({outcome.index: (head, outcome) for outcome in record.outcomes})
        return [each for _, each in sorted(found.items()) if each[1].status == "failed"]

    with ThreadPoolExecutor(_PARALLEL) as pool:
        ahead: deque[Future[list[tuple[Mapping[str, Any], Outcome]]]] = deque()
        for chunk in chunks:
            ahead.append(pool.submit(newest, chunk))
            if len(ahead) > 2 * _PARALLEL:
                yield from ahead.popleft().result()
        while ahead:
            yield from ahead.popleft().result()
