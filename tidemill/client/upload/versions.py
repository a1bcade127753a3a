"""Versions of a job's inputs: what tells whether an item's input is still the one that an earlier job read.

A version is two numbers per item, both 0 where the item itself says all. One is of the content: the SHA-256 of a file
of this machine, or the ETag of a listed object. The other is of the file's size, times and inode: while those are the
same, nothing is read. An item that was uploaded is named by its content, and a value is one; they have no version.
"""

from __future__ import annotations

import hashlib
import sys
import time
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import zstandard

from tidemill import layout
from tidemill.client.items.local_files import LocalFile, look, path_of
from tidemill.client.items.spool import Spool
from tidemill.errors import CallerError, DamagedError
from tidemill.store import Store

if TYPE_CHECKING:
    from tidemill.client.upload.hashes import Hashes

LARGE_BYTES = 64 * 2**20
"""A larger file is not read for its version: its size and times tell."""
MOST_BYTES = 2 * 2**30
"""Bytes that one submit reads for versions; of further files the size and times tell."""


class Versions:
    """The versions of a job's inputs, by item.

    Args:
        numbers: Two per item; empty where no item has a version.
    """

    def __init__(self, numbers: array[int] | None = None) -> None:
        self.numbers = array("Q") if numbers is None else numbers

    def __bool__(self) -> bool:
        return any(self.numbers)

    def same(self, item: int, other: Versions, index: int) -> bool:
        """True if an item's input is that of an item of another job."""
        ours, theirs = self._of(item), other._of(index)
        if ours == theirs:
            return ours != _UNKNOWN
        return any(one and one == two for one, two in zip(ours, theirs, strict=True))

    def _of(self, item: int) -> tuple[int, int]:
        return (self.numbers[2 * item], self.numbers[2 * item + 1]) if self.numbers else _NAMED

    def copy(self) -> Versions:
        return Versions(array("Q", self.numbers))

    def keep(self, item: int, other: Versions, index: int) -> None:
        """Note that an item's outcome follows from the input that another job read."""
        if self.numbers:
            self.numbers[2 * item : 2 * item + 2] = array("Q", other._of(index))

    # ---- in the store -------------------------------------------------------------------------------------------

    def note(self, store: Store, job: str) -> None:
        """Write them down for later jobs. Where a submit has written some of the same job, what is another now becomes
        unknown: an item may have read the one or the other."""
        if store.create(layout.versions(job), self._encoded()).ours:
            return
        items, before = range(len(self.numbers) // 2), Versions()
        with suppress(DamagedError):
            before = Versions.read(store, job, len(items))
        if changed := [item for item in items if not self.same(item, before, item)]:
            for item in changed:
                self.numbers[2 * item : 2 * item + 2] = array("Q", _UNKNOWN)
            store.put(layout.versions(job), self._encoded())

    def _encoded(self) -> bytes:
        return zstandard.ZstdCompressor().compress(_ordered(self.numbers).tobytes())

    @classmethod
    def read(cls, store: Store, job: str, items: int) -> Versions:
        """Those of a job; none where it has none.

        Raises:
            DamagedError: They are not those of so many items.
        """
        data = store.find(layout.versions(job))
        if data is None:
            return cls()
        numbers = array("Q")
        try:
            if zstandard.frame_content_size(data) != 16 * items:
                raise ValueError(f"it is not of {items} items")
            numbers.frombytes(zstandard.ZstdDecompressor().decompress(data))
        except (zstandard.ZstdError, ValueError) as error:
            raise DamagedError(f"{store.uri_of(layout.versions(job))} is damaged: {error}.") from None
        return cls(_ordered(numbers))


_NAMED = (0, 0)
_UNKNOWN = (2**64 - 1, 2**64 - 1)


def _ordered(numbers: array[int]) -> array[int]:
    """Numbers of this machine in little endian, or back."""
    if sys.byteorder == "big":
        numbers = array("Q", numbers)
        numbers.byteswap()
    return numbers


def versions_of(store: Store, spool: Spool) -> Versions:
    """The versions of some items' inputs, of files on this machine where the job runs here."""
    if spool.etags:
        return Versions(array("Q", (number for etag in spool.etags for number in (number_of(etag) if etag else 0, 0))))
    if not store.uri.startswith("file://"):
        return Versions()
    return Versions(array("Q", _of_files(item.uri for item in spool.items())))


def _of_files(uris: Iterable[str]) -> Iterator[int]:
    # Imported late: it needs SQLite, which the worker's image does not have.
    from tidemill.client.upload.hashes import FRESH_NS, Hashes

    hashes, left = Hashes(), MOST_BYTES
    try:
        for uri in uris:
            file = _file(path_of(uri))
            if file is None:
                yield from _NAMED
                continue
            content = hashes.find(file)
            if content is None and file.size <= min(LARGE_BYTES, left):
                left -= file.size
                content = _read(file, hashes)
            # A file that has just been written may be written again within the same tick of the clock.
            settled = time.time_ns() - max(file.mtime_ns, file.ctime_ns) > FRESH_NS
            version = (
                number_of(content) if content else 0,
                number_of("/".join(map(str, file[1:]))) if settled else 0,
            )
            yield from version if any(version) else _UNKNOWN
    finally:
        hashes.close()


def _file(path: str | None) -> LocalFile | None:
    """A file of this machine; None where an item names none."""
    with suppress(CallerError, ValueError):
        return look(path) if path else None
    return None


def _read(file: LocalFile, hashes: Hashes) -> str | None:
    try:
        return hashes.read(file)
    except CallerError:
        # It changes, or cannot be read: the item's own run says so.
        return None


def number_of(text: str) -> int:
    """A text as a number that is never 0: 64 bits of its digest."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") or 1
