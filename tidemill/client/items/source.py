"""Blocks of items, which every source of items yields, with words that say where each item is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Protocol, TypeVar

from tidemill.errors import CallerError

LINE_BYTES = 64 * 1024
"""The longest item with its metadata: it becomes a part of a command line."""
BLOCK_ITEMS = 4096

T = TypeVar("T")

wrong_items = partial(CallerError, what="items")


class NoItemsError(CallerError):
    """A source holds none."""


class WrongItems:
    """Errors about single items, so that one attempt tells of many."""

    MOST = 10
    """Errors that are told together; what follows is not looked at."""

    def __init__(self) -> None:
        self._errors: list[CallerError] = []

    def __bool__(self) -> bool:
        return bool(self._errors)

    def add(self, error: CallerError) -> None:
        """Note an error.

        Raises:
            CallerError: It is the last that is told.
        """
        self._errors.append(error)
        if len(self._errors) == self.MOST:
            self.check()

    def check(self) -> None:
        """Raise `CallerError` if there was an error."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            number = f"the first {self.MOST}" if len(self._errors) == self.MOST else str(len(self._errors))
            problems = "; ".join(error.problem.rstrip(".") for error in self._errors)
            fixes = " ".join(dict.fromkeys(error.fix for error in self._errors if error.fix))
            raise wrong_items(f"items: {number} are wrong: {problems}.", fixes)


@dataclass(frozen=True)
class Block:
    """Some items of a source, as they were read.

    Attributes:
        uris: Not yet checked.
        places: Where each is in its source; `ItemSource.where` puts it in words.
        metas: What is attached to each, or None where a source knows no metadata.
        sizes: Bytes of each, where a listing tells them.
        etags: ETags of each, in the same way.
    """

    uris: Sequence[str]
    places: Sequence[int]
    metas: Sequence[Mapping[str, Any] | None] | None = None
    sizes: Sequence[int] | None = None
    etags: Sequence[str] | None = None


def batches(things: Iterable[T]) -> Iterator[tuple[list[T], range]]:
    """As many things as a block has, with their places 0, 1, 2 and so on."""
    stream, start = iter(things), 0
    while batch := list(islice(stream, BLOCK_ITEMS)):
        yield batch, range(start, start + len(batch))
        start += len(batch)


def blocks(uris: Iterable[str]) -> Iterator[Block]:
    """URIs in blocks."""
    return (Block(batch, places) for batch, places in batches(uris))


class ItemSource(Protocol):
    """Items as a stream of blocks, with words for where each is."""

    label: str

    def __iter__(self) -> Iterator[Block]: ...

    def where(self, place: int) -> str:
        """A place in words, for an error message."""
        ...
