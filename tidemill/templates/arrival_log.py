"""The log of a template's arrivals: numbered objects, each created once, so that all senders agree on their order.

An entry is a *page* of objects that have arrived, or a *send*, which takes the pages since the send before it. The
names sort the newest entry first, and the notes about a send follow its name.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile

import zstandard
from pydantic import BaseModel, ConfigDict, Field

from tidemill import layout
from tidemill.errors import DamagedError
from tidemill.ledger.documents import parse_document
from tidemill.store import Store
from tidemill.templates.notes import noted_sends
from tidemill.templates.seen_objects import SeenObjects

_ENTRY = ".json.zst"
_NAME = re.compile(r"(\d{10})\.json\.zst")
_MOST_BYTES = 1 << 27
"""Of an entry, unpacked."""

Arrived = tuple[str, str, float]
"""URI, tag and time of an object that has arrived."""


class TakenPages(BaseModel):
    """The part of a send: what it takes."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    first: int
    """Number of the first page that it takes; the last is before the send."""
    objects: int
    """Objects that no earlier send has taken."""
    at: datetime
    earlier: list[datetime] = Field(default_factory=list)
    """When the sends of the hour before were."""
    seen_before: str | None = None
    """SHA-256 of the list of objects that earlier sends have taken."""
    seen: str | None = None
    """The same with its own."""


class ArrivalEntry(BaseModel):
    """An entry of the log: a page, or a send."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    page: list[Arrived] | None = None
    send: TakenPages | None = None
    at: datetime
    writer: str = Field(default_factory=lambda: secrets.token_hex(8))
    """Tells it from an equal entry of another sender."""


@dataclass(frozen=True)
class LogEnd:
    """The newest part of a log: the last send, and the pages after it.

    Attributes:
        last: Number of the newest entry; 0 in an empty log.
        number: Number of the last send; 0 where there is none.
        send: The last send.
        pages: Numbers of the pages after it, the oldest first.
        kinds: The kinds of the notes about the last send.
        held: Why the pages that wait were not looked at.
    """

    last: int
    number: int
    send: TakenPages | None
    pages: Sequence[int]
    kinds: frozenset[str]
    held: str = ""


class ArrivalLog:
    """The log of one template and one of the stack's arrivals.

    Args:
        store: The job store.
        template: The template's name.
        trigger: `arrivals NAME`.
    """

    def __init__(self, store: Store, template: str, trigger: str) -> None:
        self._store, self._folder = store, layout.sends(template, trigger)
        self._packed: dict[int, bytes] = {}

    def end(self, held: Callable[[], str] = str) -> LogEnd:
        """The newest part, by one listing and an entry for each page that no send has taken.

        Args:
            held: Says why pages that wait are not looked at, if there are any; empty where they are.
        """
        last, pages, reason = 0, list[int](), ""
        names = self._names()
        for name in names:
            number = self._number(name)
            if number is None:
                continue
            last = last or number
            if (send := self.entry(number).send) is not None:
                # The notes about an entry follow its name.
                notes = list(takewhile(lambda name: self._number(name) is None, names))
                own = layout.newest_first(number)
                kinds = next((noted.kinds for noted in noted_sends(notes) if noted.key == own), frozenset[str]())
                return LogEnd(last, number, send, pages[::-1], kinds, reason)
            if not pages and (reason := held()):
                return LogEnd(last, 0, None, [], frozenset(), reason)
            pages.append(number)
        return LogEnd(last, 0, None, pages[::-1], frozenset(), reason)

    def last(self) -> int:
        """Number of the newest entry; 0 in an empty log."""
        return next((number for name in self._names() if (number := self._number(name))), 0)

    def entry(self, number: int) -> ArrivalEntry:
        """An entry. It never changes, so it is read from the store once, and kept as it is packed: after a long pause
        there are thousands."""
        name = self._name(number)
        if number not in self._packed:
            self._packed[number] = self._store.get(name)
        uri = self._store.uri_of(name)
        return parse_document(_unpacked(self._packed[number], uri), uri, ArrivalEntry)

    def append(self, number: int, entry: ArrivalEntry) -> bool:
        """Write an entry; false where another one has the number."""
        data = zstandard.ZstdCompressor().compress(entry.model_dump_json(exclude_none=True).encode())
        return self._store.create(self._name(number), data).ours

    def objects(self, pages: Sequence[int]) -> Iterator[Arrived]:
        """The objects of pages, in the order of their arrival."""
        for number in pages:
            yield from self.entry(number).page or ()

    def seen(self, sha256: str | None) -> SeenObjects:
        return SeenObjects(b"" if sha256 is None else self._store.get(self._seen_name(sha256)))

    def keep_seen(self, seen: SeenObjects) -> str:
        """Write a list of objects down, under its content; returns its SHA-256."""
        data = seen.encode()
        sha256 = hashlib.sha256(data).hexdigest()
        self._store.create(self._seen_name(sha256), data)
        return sha256

    def _names(self) -> Iterator[str]:
        """Names of entries and notes, those of the newest number first."""
        offset = None
        while names := sorted(entry.name for entry in self._store.page(self._folder, offset)):
            yield from names
            offset = names[-1]

    def _number(self, name: str) -> int | None:
        """The number of an entry; None for the name of a note."""
        found = _NAME.fullmatch(name, len(self._folder) + 1)
        return layout.NEWEST_FIRST - int(found[1]) if found else None

    def _name(self, number: int) -> str:
        return f"{self._folder}/{layout.newest_first(number)}{_ENTRY}"

    def _seen_name(self, sha256: str) -> str:
        return f"{self._folder}/seen/{sha256}"


def _unpacked(data: bytes, uri: str) -> bytes:
    try:
        if not 0 < zstandard.frame_content_size(data) <= _MOST_BYTES:
            raise DamagedError(f"{uri} is damaged: it does not say that it has {_MOST_BYTES} bytes at most.")
        return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise DamagedError(f"{uri} is damaged: {error}.") from None
