"""Outcomes with the items that they are of: a record has an item's URI, and only the manifest its metadata."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tidemill.job import Item
from tidemill.ledger.ledger import Ledger
from tidemill.ledger.records import Outcome
from tidemill.manifest import read_chunk, read_items


def items_of(ledger: Ledger, chunks: Collection[int] | None = None) -> Iterator[Item]:
    """The items of some chunks of a job, or of all, in order."""
    if chunks is None:
        return read_items(ledger.store, ledger.job, ledger.index())
    return (item for chunk in sorted(chunks) for item in read_chunk(ledger.store, ledger.job, chunk))


def paired(ledger: Ledger, chunks: Collection[int] | None = None) -> Iterator[tuple[Outcome, Item]]:
    """Every outcome that `Ledger.outcomes` yields of some chunks, or of all, with its item."""
    items = items_of(ledger, chunks)
    for outcome in ledger.outcomes(chunks):
        yield outcome, next(item for item in items if item.index == outcome.index)
