"""A job's items in the store: one zstd frame a chunk, and an index that leads to it.

A worker reads exactly its own bytes: two range reads, one in ``manifest/index`` and one in a part. Layout:

``jobs/<job>/manifest/<part>.jsonl.zst``
    Frames back to back; a line is an item: a JSON string (its URI), or an object with ``uri`` and ``meta``.
``jobs/<job>/manifest/index``
    A header (magic ``TMI1``, chunks u32, items u64; little endian) and an entry a chunk (part u32, offset u32,
    length u32, first item u64, items u32).
"""

from __future__ import annotations

import json
import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import zstandard

from tidemill.errors import DamagedError, StoreError, decoding
from tidemill.job import Item
from tidemill.store import Store

PART_BYTES = 4 * 1024 * 1024
"""A part is closed before it grows over this; with one chunk it may be larger."""
_PARTS_UNDERWAY = 4
"""Parts that are sent side by side, and so kept in memory."""
_MAGIC = b"TMI1"
_HEADER = struct.Struct("<4sIQ")
_ENTRY = struct.Struct("<IIIQI")


class Frame(NamedTuple):
    """Where a chunk is, and which items it holds."""

    part: int
    offset: int
    length: int
    first: int
    items: int


@dataclass(frozen=True)
class ManifestInfo:
    """What was written: items, chunks, parts and compressed bytes."""

    items: int
    chunks: int
    parts: int
    bytes: int


def folder(job: str) -> str:
    """Where a job's manifest is, in the store."""
    return f"jobs/{job}/manifest"


def part_name(job: str, part: int) -> str:
    """The name of a part."""
    return f"{folder(job)}/{part:05d}.jsonl.zst"


def index_name(job: str) -> str:
    """The name of the index."""
    return f"{folder(job)}/index"


def write_frames(store: Store, job: str, frames: Iterable[tuple[bytes, int]]) -> ManifestInfo:
    """Write chunks as they come, in memory that does not grow with their number; the index is written last.

    The same chunks give the same bytes, so that a submit that died can write again what it had written.

    Args:
        store: The job store.
        job: The job's id.
        frames: A chunk each: its lines as the manifest has them, without a line end after the last, and how many.
    """
    with ThreadPoolExecutor(_PARTS_UNDERWAY) as pool:
        writer = _Writer(store, job, pool)
        for text, items in frames:
            writer.add(text, items)
        return writer.close()


class _Writer:
    def __init__(self, store: Store, job: str, pool: ThreadPoolExecutor) -> None:
        self._store, self._job, self._pool = store, job, pool
        self._compressor = zstandard.ZstdCompressor(level=3, write_checksum=True, write_content_size=True)
        self._part = bytearray()
        self._parts = self._items = self._bytes = 0
        self._index = bytearray()
        self._underway: deque[Future[None]] = deque()

    def add(self, text: bytes, items: int) -> None:
        frame = self._compressor.compress(text)
        if self._part and len(self._part) + len(frame) > PART_BYTES:
            self._flush()
        self._index += _ENTRY.pack(self._parts, len(self._part), len(frame), self._items, items)
        self._part += frame
        self._items += items

    def _flush(self) -> None:
        if len(self._underway) == _PARTS_UNDERWAY:
            self._underway.popleft().result()
        data = bytes(self._part)
        self._underway.append(self._pool.submit(self._store.put, part_name(self._job, self._parts), data))
        self._bytes += len(data)
        self._parts += 1
        self._part.clear()

    def close(self) -> ManifestInfo:
        if self._part:
            self._flush()
        for part in self._underway:
            part.result()
        chunks = len(self._index) // _ENTRY.size
        self._store.put(index_name(self._job), _HEADER.pack(_MAGIC, chunks, self._items) + self._index)
        return ManifestInfo(self._items, chunks, self._parts, self._bytes)


class ManifestIndex:
    """The index in memory: 24 bytes a chunk."""

    def __init__(self, data: bytes) -> None:
        if len(data) < _HEADER.size or data[:4] != _MAGIC:
            raise DamagedError(
                "the manifest's index is not one.", "The job was not completely submitted: submit again."
            )
        _, self.chunks, self.items = _HEADER.unpack_from(data)
        if len(data) != _HEADER.size + self.chunks * _ENTRY.size:
            raise DamagedError("the manifest's index is cut.", "The job was not completely submitted: submit again.")
        self._data = data

    @classmethod
    def load(cls, store: Store, job: str) -> ManifestIndex:
        """Read a job's whole index."""
        return cls(store.get(index_name(job)))

    def frame(self, chunk: int) -> Frame:
        """Where a chunk is."""
        return Frame(*_ENTRY.unpack_from(self._data, _HEADER.size + chunk * _ENTRY.size))

    def size(self, chunk: int) -> int:
        """Items of a chunk."""
        return self.frame(chunk).items

    def chunk_of(self, item: int) -> int:
        """The chunk that holds an item.

        Raises:
            IndexError: The job has no such item.
        """
        if not 0 <= item < self.items:
            raise IndexError(f"item {item} of {self.items}")
        return bisect_right(range(self.chunks), item, key=lambda chunk: self.frame(chunk).first) - 1


def read_chunk(store: Store, job: str, chunk: int) -> list[Item]:
    """A chunk's items, by two range reads.

    Raises:
        DamagedError: There is no such chunk, or what was read is not what was written.
    """
    entry = _exactly(store, index_name(job), _HEADER.size + chunk * _ENTRY.size, _ENTRY.size)
    frame = Frame(*_ENTRY.unpack(entry))
    return decode(_exactly(store, part_name(job, frame.part), frame.offset, frame.length), frame)


def _exactly(store: Store, name: str, start: int, length: int) -> bytes:
    """A range of an object, whole."""
    try:
        data = store.get_range(name, start, length)
    except StoreError:
        # A range that begins after the object's end is an error like any other: only its size tells.
        size = store.size(name)
        if size is None or size > start:
            raise
        data = b""
    if len(data) != length:
        raise DamagedError(f"{store.uri_of(name)} is damaged: it ends before byte {start + length}.")
    return data


def decode(data: bytes, frame: Frame) -> list[Item]:
    """The items of a frame's bytes.

    Raises:
        DamagedError: They are damaged (each frame carries a checksum).
    """
    try:
        text = zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise DamagedError(f"a chunk of the manifest is damaged: {error}.") from None
    lines = text.split(b"\n")
    if len(lines) != frame.items:
        raise DamagedError(f"a chunk of the manifest holds {len(lines)} items instead of {frame.items}.")
    with decoding("a chunk of the manifest"):
        return [_item(frame.first + n, json.loads(line)) for n, line in enumerate(lines)]


def _item(index: int, line: str | dict) -> Item:
    if isinstance(line, str):
        return Item(index, line)
    return Item(index, line["uri"], line["meta"])
