"""The chunks and items of a large retry or resume, in an object next to its round: `r<r>/chosen/<sha256>`.

A container reads exactly its own: a row, and the items that the row leads to. `tidemill.completion` has the layout.
"""

from __future__ import annotations

import hashlib
import struct
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from tidemill.completion import HEADER, MAGIC, ROW, Row
from tidemill.errors import DamagedError
from tidemill.store import Store


def encode(chunks: Sequence[int], items: Mapping[int, list[int]], failed_before: Mapping[int, int]) -> bytes:
    """The object's bytes: chunks in order, the items that run (by chunk, where not all do) and how many of them had
    failed."""
    rows, lists = bytearray(), bytearray()
    start = HEADER.size + len(chunks) * ROW.size
    for chunk in chunks:
        some = items.get(chunk, ())
        rows += ROW.pack(chunk, failed_before.get(chunk, 0), len(some), start + len(lists))
        lists += struct.pack(f"<{len(some)}Q", *some)
    return HEADER.pack(MAGIC, len(chunks)) + rows + lists


class ChosenRows:
    """The rows of the object, read one by one until a chunk is looked up by its number: then all at once."""

    def __init__(self, store: Store, name: str) -> None:
        self._store, self._name = store, name
        self._row: Row | None = None
        self._data: bytes | None = None
        self._chunks: list[int] = []

    def row(self, child: int) -> Row:
        """The row of a child, counted through all arrays of the round."""
        if self._data is None:
            self._row = self._read(child)
            return self._row
        return self._read(child)

    def find(self, chunk: int) -> Row | None:
        """The row of a chunk, or None."""
        if self._row and self._row.chunk == chunk:
            return self._row
        child = bisect_left(self.chunks, chunk)
        return self._read(child) if child < len(self.chunks) and self.chunks[child] == chunk else None

    @property
    def chunks(self) -> list[int]:
        self._load()
        return self._chunks

    def _load(self) -> None:
        if self._data is not None:
            return
        data = self._store.get(self._name)
        if hashlib.sha256(data).hexdigest() != self._name.rpartition("/")[2] or data[:4] != MAGIC:
            raise DamagedError(f"{self._store.uri_of(self._name)} is not what was enqueued: its SHA-256 differs.")
        rows = memoryview(data)[HEADER.size : HEADER.size + HEADER.unpack_from(data)[1] * ROW.size]
        self._data, self._chunks = data, [row[0] for row in ROW.iter_unpack(rows)]

    def _read(self, child: int) -> Row:
        chunk, before, count, offset = ROW.unpack(self._bytes(HEADER.size + child * ROW.size, ROW.size))
        items = list(struct.unpack(f"<{count}Q", self._bytes(offset, 8 * count))) if count else None
        return Row(chunk, before, items)

    def _bytes(self, start: int, length: int) -> bytes:
        data = self._data
        part = self._store.get_range(self._name, start, length) if data is None else data[start : start + length]
        if len(part) != length:
            raise DamagedError(f"{self._store.uri_of(self._name)} is cut.")
        return part
