"""What every source of items yields: blocks of items, and words that say where each item is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

LINE_BYTES = 64 * 1024
"""An item with its metadata is at most as long as this: it becomes a part of a command line."""
BLOCK_ITEMS = 4096


@dataclass(frozen=True)
class Block:
    """Some items of a source, as they were read.

    Attributes:
        uris: Not yet checked.
        places: Where each stands; `ItemSource.where` says it in words.
        metas: What is attached to each, or None where a source knows no metadata.
    """

    uris: Sequence[str]
    places: Sequence[int]
    metas: Sequence[Mapping[str, Any] | None] | None = None


class ItemSource(Protocol):
    """Items as a stream of blocks, with the words that say where each stands."""

    label: str

    def __iter__(self) -> Iterator[Block]:
        """Yields blocks."""
        ...

    def where(self, place: int) -> str:
        """A place in words, for an error message."""
        ...
