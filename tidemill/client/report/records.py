"""Reads the records of a job for its report: their heads, and a bounded number of those with failed items whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from pydantic_core import from_json

from tidemill import layout
from tidemill.client.report.failures import FailureGroup, add_failure
from tidemill.client.report.model import FailedGroup, FailureSummary
from tidemill.client.report.sampling import evenly
from tidemill.client.report.totals import Totals, place_words
from tidemill.errors import decoding
from tidemill.failures import GroupKey
from tidemill.ledger import Ledger, Listing, Outcome
from tidemill.ledger.digest import VERSION
from tidemill.ledger.documents import UnreadableError
from tidemill.ledger.outcome_sources import OutcomeSources, ended_chunks
from tidemill.store import Store, read_heads
from tidemill.store.ahead import in_order

HEAD_BYTES, BYTES_PER_ITEM, LONGEST_HEAD = 640, 16, 8192
"""Bytes of a record that are read at first: its first line grows with its items, up to a bound."""
FAILING_CHUNKS = 2000
"""Chunks with failed items that are read whole, evenly over the job. Where there are more, the report says so."""
GROUPS_SHOWN = 50
_PARALLEL = 16


def read_digests(
    store: Store, job: str, listing: Listing, totals: Totals, chunk_size: int, *, most: int | None = None
) -> float:
    """Add committed records to the totals: all of them, or at most so many, evenly over the job.

    Returns:
        How many records each one that was read stands for.
    """
    every = [layout.done(job, number, chunk) for number, chunks in listing.done.items() for chunk in chunks]
    names, step = evenly(every, most or max(1, len(every)))
    cut: list[str] = []

    def take(position: int, data: bytes) -> None:
        line, end, _ = data.partition(b"\n")
        if not end:
            cut.append(names[position])
            return
        with decoding(store.uri_of(names[position])):
            head = from_json(line)
            if (version := head["digest"]["v"]) != VERSION:
                raise UnreadableError(
                    f"{store.uri_of(names[position])} has a digest of version {version}; {VERSION} is known here.",
                    "A newer Tidemill may have written it: update this one.",
                )
            totals.add(head, head["digest"])

    read_heads(store, names, min(LONGEST_HEAD, HEAD_BYTES + BYTES_PER_ITEM * chunk_size), take)
    if cut:
        names, cut = cut, []
        read_heads(store, names, LONGEST_HEAD, take)
    return step


@dataclass
class _Occurrences:
    """Times and places of a group's failures."""

    first: str | None = None
    last: str | None = None
    places: Counter[str] = field(default_factory=Counter)

    def add(self, at: str, place: str) -> None:
        self.first = at if self.first is None else min(self.first, at)
        self.last = at if self.last is None else max(self.last, at)
        self.places[place] += 1


@dataclass
class UnfinishedItems:
    """Items that have ended in chunks without a record.

    Attributes:
        failures: The outcomes of those that failed, each with the time when its chunk was last written.
    """

    succeeded: int = 0
    failures: list[tuple[str, Outcome]] = field(default_factory=list)


def unfinished_chunks(ledger: Ledger, listing: Listing) -> dict[int, OutcomeSources]:
    """Chunks without any record of which items have ended. Items that run again count by their records."""
    sources = ended_chunks(ledger.store, ledger.job, listing.rounds, lambda number: listing.done[number])
    return {chunk: each for chunk, each in sources.items() if not each.rounds}


def read_unfinished(ledger: Ledger, chunks: Mapping[int, OutcomeSources], totals: Totals) -> UnfinishedItems:
    """Add what has ended in chunks without a record to the totals."""
    found = UnfinishedItems()
    with ThreadPoolExecutor(_PARALLEL) as pool:
        read = lambda chunk: ledger.merged(chunk, (), chunks[chunk].unfinished)  # noqa: E731
        for chunk, outcomes in zip(chunks, in_order(pool, read, chunks, 2 * _PARALLEL), strict=True):
            totals.add_unfinished(outcomes, chunks[chunk].at)
            at = datetime.fromtimestamp(chunks[chunk].at, UTC).isoformat(timespec="milliseconds")
            failed = [(at, outcome) for outcome in outcomes if outcome.status == "failed"]
            found.failures += failed
            found.succeeded += len(outcomes) - len(failed)
    return found


def read_failures(
    ledger: Ledger, listing: Listing, unfinished: UnfinishedItems, everything: bool = False
) -> FailureSummary:
    """Failed items by group: those of unfinished chunks, and those in the records of chunks that have any, which are
    all of them, or `FAILING_CHUNKS`."""
    failing = sorted(listing.failed)
    chosen = failing if everything else evenly(failing, FAILING_CHUNKS)[0]
    groups: dict[GroupKey, FailureGroup] = {}
    seen: dict[str, _Occurrences] = {}
    failed = 0
    early = (({"committed_at": at}, outcome) for at, outcome in unfinished.failures)
    for header, outcome in chain(early, _failed_outcomes(ledger, listing, chosen)):
        failed += 1
        group = add_failure(groups, outcome)
        machine = (header.get("digest") or {}).get("machine") or {}
        words = place_words((machine.get("type"), None, machine.get("market")))
        place = f"{words}, {machine['zone']}" if machine.get("zone") else words
        seen.setdefault(group.id, _Occurrences()).add(header["committed_at"], place)
    total = listing.counts.failed + len(unfinished.failures)
    scale = total / failed if len(chosen) < len(failing) and failed else 1.0
    ranked = sorted(groups.values(), key=lambda group: (-group.count, group.items))
    described = [_described(group, seen[group.id], scale) for group in ranked[:GROUPS_SHOWN]]
    return FailureSummary(described, len(failing), len(chosen))


def _described(group: FailureGroup, seen: _Occurrences, scale: float) -> FailedGroup:
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
        outcomes: dict[int, tuple[Mapping[str, Any], Outcome]] = {}
        for number in (number for number, done in listing.done.items() if chunk in done):
            if record := ledger.chunk(number, chunk).committed():
                head = record.header._asdict()
                outcomes.update({outcome.index: (head, outcome) for outcome in record.outcomes})
        return [each for _, each in sorted(outcomes.items()) if each[1].status == "failed"]

    with ThreadPoolExecutor(_PARALLEL) as pool:
        yield from chain.from_iterable(in_order(pool, newest, chunks, 2 * _PARALLEL))
