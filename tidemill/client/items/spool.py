"""Items on their way into a manifest: checked, encoded and fingerprinted as they pass, kept on this machine's disk.

A job's id and its chunk size follow from all of its items, so none can be written to the store before the last one was
read. What passes is kept in a temporary file, in the manifest's own lines: memory does not grow with the items, and
what is sent is what was fingerprinted, even if the list changes meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from json.encoder import encode_basestring
from typing import BinaryIO, cast

from tidemill.client.items.fetch_rules import FetchRules
from tidemill.client.items.folders import ItemFolder, StorePrefix
from tidemill.client.items.order import Weigh
from tidemill.client.items.source import (
    BLOCK_ITEMS,
    LINE_BYTES,
    Block,
    ItemSource,
    NoItemsError,
    WrongItems,
    wrong_items,
)
from tidemill.errors import CallerError, shown
from tidemill.job import Item

_BITS = 1 << 27
"""Bits of the filter that finds duplicates: 16 MiB, and a small job touches almost none of it."""
SAMPLE = 9
_DUPLICATES = 100_000
"""The most different items whose copies are counted."""


def encodable(text: str) -> bool:
    """False for what a command line gave in another encoding: Python keeps such bytes as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Spool:
    """The items of a job. `fill` it once, then read `frames`.

    Args:
        fetched: Where the machines fetch the items; None where they are mere names.
        weigh: Tells how long an item takes compared with others; None where it is not needed.
        refusal: Why an item's file cannot be sent, as a predicate; None where no item is sent.
    """

    def __init__(
        self,
        fetched: FetchRules | None,
        weigh: Weigh | None = None,
        refusal: Callable[[str], str | None] | None = None,
    ) -> None:
        self._fetched, self._weigh, self._refusal = fetched, weigh, refusal
        self._wrong = WrongItems()
        self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - lives as long as the spool
        self._digest = hashlib.sha256()
        self._seen = bytearray(_BITS // 8)
        self._again: set[int] = set()
        self.count = 0
        self.first = ""
        self.sample: list[str] = []
        """Some of the items: of the first few blocks the first, the middle and the last."""
        self.objects = True
        """Whether every item was an object at first sight; where none is fetched nothing is known."""
        self.weights = array("d")
        """Of each item; empty without `weigh`."""
        self.etags: list[str] = []
        """Of each item; empty where a source does not tell them."""

    def fill(self, source: ItemSource) -> Spool:
        """Read a source to its end.

        Raises:
            CallerError: Items that cannot be any, and where they are; or none at all; or this machine's disk is full.
        """
        try:
            for block in source:
                if block.uris:
                    self._add(source, block)
        except OSError as error:
            raise _unwritten(f"{source.label} cannot be read", error) from None
        self._wrong.check()
        if not self.count:
            where = source.label.removeprefix("items").strip()
            problem = f"There are no items in {where}." if where else "No items are given."
            hidden = source.hiding.note() if isinstance(source, (ItemFolder, StorePrefix)) else None
            fix = hidden or "Give URIs or paths, a list with one per line, a folder, or a pattern."
            raise NoItemsError(problem, fix, what="items")
        self._seen = bytearray()
        return self

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def _add(self, source: ItemSource, block: Block) -> None:
        uris = block.uris
        if not self._fine(uris):
            self.objects = False
            for uri, place in zip(uris, block.places, strict=True):
                try:
                    self._refuse(uri, source.where(place))
                except CallerError as error:
                    self._wrong.add(error)
        if self._wrong:
            return
        lines = [encode_basestring(uri) for uri in uris] if block.metas is None else self._with_meta(source, block)
        self.first = self.first or uris[0]
        if len(self.sample) < SAMPLE:
            self.sample += uris[0], uris[len(uris) // 2], uris[-1]
        if self._weigh:
            self.weights.extend(self._weigh(source, block))
        self.etags += block.etags or ()
        self._look_for_duplicates(lines)
        data = ("\n".join(lines) + "\n").encode()
        self._digest.update(data)
        self._file.write(data)
        self.count += len(lines)

    def _fine(self, uris: Sequence[str]) -> bool:
        """True if all are right, checked at half a million per second or more."""
        try:
            joined = "\n".join(uris)
            joined.encode()
        except (TypeError, UnicodeEncodeError):
            return False
        if "\0" in joined or joined.count("\n") != len(uris) - 1 or not all(map(str.strip, uris)):
            return False
        # A character has at most four bytes.
        short = max(map(len, uris)) <= LINE_BYTES // 4
        sent = self._refusal is None or not any(map(self._refusal, uris))
        return short and sent and (self._fetched is None or all(map(self._fetched.plain, uris)))

    def _refuse(self, uri: object, where: str) -> None:
        if not isinstance(uri, str):
            raise wrong_items(
                f"{where} is {shown(uri)}; an item is a text (a URI or a path), a Path or a tidemill.Item."
            )
        if self._refusal and (reason := self._refusal(uri)):
            raise wrong_items(f"{uri!r} {reason}.", "Rename it.")
        if "\0" in uri or "\n" in uri:
            fix = "A text is a URI or a path: rename it. Put any other text into a list or dict."
            raise wrong_items(f"{where} is {shown(uri)}, which holds a NUL or a line break.", fix)
        if not encodable(uri):
            raise wrong_items(f"{where} is {uri!r}, which is not UTF-8.", "Give an item whose name is UTF-8 text.")
        if not uri.strip():
            raise wrong_items(f"{where} is empty; an item is a URI or a path.", "Leave it out.")
        if len(uri.encode()) > LINE_BYTES:
            raise wrong_items(f"{where} is longer than {LINE_BYTES} bytes.", "Give one item per line.")
        if self._fetched and (problem := self._fetched.problem(uri)):
            raise wrong_items(f"{where} is {shown(uri)}, {problem}")

    def _with_meta(self, source: ItemSource, block: Block) -> list[str]:
        lines = []
        for uri, meta, place in zip(block.uris, block.metas or (), block.places, strict=True):
            try:
                line = _line(uri, meta)
                size = len(line.encode())
            except (TypeError, ValueError) as error:
                raise wrong_items(f"{source.where(place)}: its metadata cannot be written as JSON: {error}.") from None
            if size > LINE_BYTES:
                raise wrong_items(f"{source.where(place)} is longer than {LINE_BYTES} bytes with its metadata.")
            lines.append(line)
        return lines

    # ---- duplicates ---------------------------------------------------------------------------------------------

    def _look_for_duplicates(self, lines: Iterable[str]) -> None:
        """Note what may be a duplicate: a filter of one hash, whose false positives `duplicates` removes."""
        seen, again = self._seen, self._again
        for key in map(hash, lines):
            at, bit = (key & (_BITS - 1)) >> 3, 1 << (key & 7)
            if not seen[at] & bit:
                seen[at] |= bit
            elif len(again) < _DUPLICATES:
                again.add(key)

    def duplicates(self) -> tuple[int, str | None]:
        """How many items repeat an earlier one (exact up to 100,000 different ones), and such an item's line."""
        if not self._again:
            return 0, None
        counts: Counter[int] = Counter()
        example = None
        self._file.seek(0)
        again = self._again
        while block := self._file.readlines(1 << 20):
            for line in [line for line in b"".join(block).decode().split("\n") if hash(line) in again]:
                counts[hash(line)] += 1
                if counts[hash(line)] == 2 and example is None:
                    example = line
        return sum(count - 1 for count in counts.values()), example

    def items(self) -> Iterator[Item]:
        """The items in their order."""
        self._file.seek(0)
        for index, line in enumerate(self._file):
            value = json.loads(line)
            yield Item(index, value) if isinstance(value, str) else Item(index, value["uri"], value["meta"])

    def lines(self) -> Iterator[bytes]:
        """The items' lines, as the manifest has them."""
        self._file.seek(0)
        return (line.removesuffix(b"\n") for line in self._file)

    def reorder(self, order: Sequence[int]) -> None:
        """Put the items into another order, given by their present indexes.

        Raises:
            CallerError: This machine's disk is full.
        """
        file, digest = cast(BinaryIO, tempfile.TemporaryFile()), hashlib.sha256()  # noqa: SIM115 - replaces the spool's
        try:
            self._file.flush()
            with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as lines:
                ends = array("Q", [0])
                while end := lines.find(b"\n", ends[-1]) + 1:
                    ends.append(end)
                for first in range(0, len(order), BLOCK_ITEMS):
                    data = b"".join(lines[ends[at] : ends[at + 1]] for at in order[first : first + BLOCK_ITEMS])
                    digest.update(data)
                    file.write(data)
        except OSError as error:
            raise _unwritten("items cannot be read", error) from None
        self._file.close()
        self._file, self._digest = file, digest
        self.etags = [self.etags[at] for at in order] if self.etags else []

    # ---- what is sent -------------------------------------------------------------------------------------------

    def frames(self, sizes: Iterable[int]) -> Iterator[tuple[bytes, int]]:
        """Frames of so many of the items' lines each, with the number of items."""
        self._file.seek(0)
        for size in sizes:
            lines = list(islice(self._file, size))
            if not lines:
                return
            yield b"".join(lines).removesuffix(b"\n"), len(lines)


def _unwritten(read: str, error: OSError) -> CallerError:
    return wrong_items(f"{read}, or {tempfile.gettempdir()} not be written: {error.strerror}.")


def _line(uri: str, meta: object) -> str:
    if meta is None:
        return encode_basestring(uri)
    return json.dumps({"uri": uri, "meta": meta}, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
