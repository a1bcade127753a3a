"""A job's items in the store: one zstd frame per chunk, and an index that leads to it.

A worker reads exactly its own bytes: two range reads, one in ``manifest/index`` and one in a part. Layout:

``jobs/<job>/manifest/<part>.jsonl.zst``
    Frames back to back; a line is an item: a JSON string (its URI), or an object with ``uri`` and ``meta``. The part's
    number follows from its content (in version 0.1 parts were counted).
``jobs/<job>/manifest/index``
    A header (magic ``TMI1``, chunks u32, items u64; little endian) and an entry a chunk (part u32, offset u32,
    length u32, first item u64, items u32). ``job.json`` has its SHA-256.

Nothing is ever overwritten: of two submits of one job at once, with chunks of different sizes, the first index counts,
and leads to its own parts.
"""

from __future__ import annotations

import hashlib
import json
import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import zstandard

from tidemill import layout
from tidemill.errors import DamagedError, StoreError, decoding
from tidemill.job import Item
from tidemill.store import Store

PART_BYTES = 4 * 1024 * 1024
"""A part's limit; a part of one chunk may be larger."""
_PARTS_UNDERWAY = 4
"""Parts that are in memory, being sent."""
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
    """The manifest in the store: its items and chunks, the size of the largest chunk, and the index's SHA-256. `parts`
    are those that were written here. `ours` tells whether it holds the chunks that were given."""

    items: int
    chunks: int
    largest: int
    parts: int
    sha256: str
    ours: bool


def part_name(job: str, part: int) -> str:
    return f"{layout.manifest(job)}/{part:05d}.jsonl.zst"


def index_name(job: str) -> str:
    return f"{layout.manifest(job)}/index"


def write_frames(store: Store, job: str, frames: Iterable[tuple[bytes, int]]) -> ManifestInfo:
    """Write chunks as they come, in memory that does not grow with their number; the index is created last.

    The same chunks give the same names and bytes, so that a submit that died finds what it had written.

    A frame is a chunk's lines as the manifest has them, without a line end after the last, and how many.
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
        self._frames: list[tuple[int, int, int, int]] = []
        """Frames of the open part: offset, length, first item and items."""
        self._parts = self._items = 0
        self._index = bytearray()
        self._underway: deque[tuple[Future[int], list[tuple[int, int, int, int]]]] = deque()

    def add(self, text: bytes, items: int) -> None:
        frame = self._compressor.compress(text)
        if self._part and len(self._part) + len(frame) > PART_BYTES:
            self._flush()
        self._frames.append((len(self._part), len(frame), self._items, items))
        self._part += frame
        self._items += items

    def _flush(self) -> None:
        if len(self._underway) == _PARTS_UNDERWAY:
            self._written()
        data = bytes(self._part)
        self._underway.append((self._pool.submit(_create_part, self._store, self._job, data), self._frames))
        self._frames = []
        self._parts += 1
        self._part.clear()

    def close(self) -> ManifestInfo:
        if self._part:
            self._flush()
        while self._underway:
            self._written()
        chunks = len(self._index) // _ENTRY.size
        ours = _HEADER.pack(_MAGIC, chunks, self._items) + self._index
        standing = self._store.create(index_name(self._job), ours).content
        index = ManifestIndex(standing)
        largest = max((index.size(chunk) for chunk in range(index.chunks)), default=0)
        sha256 = hashlib.sha256(standing).hexdigest()
        return ManifestInfo(index.items, index.chunks, largest, self._parts, sha256, standing == ours)

    def _written(self) -> None:
        """Enter the oldest part that is under way, once it is in the store."""
        part, frames = self._underway.popleft()
        number = part.result()
        for frame in frames:
            self._index += _ENTRY.pack(number, *frame)


def _create_part(store: Store, job: str, data: bytes) -> int:
    """Write a part under a number that follows from its content; returns the number."""
    number = int.from_bytes(hashlib.sha256(data).digest()[:4])
    # Another part may have the number already, once in a hundred thousand jobs of two hundred parts.
    while not store.create(part_name(job, number), data).ours:
        number = (number + 1) % 2**32
    return number


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
    def load(cls, store: Store, job: str, sha256: str | None = None) -> ManifestIndex:
        """Read a job's whole index, and check its SHA-256 where that is known.

        Raises:
            DamagedError: It is not an index, or not the one that was submitted.
        """
        data = store.get(index_name(job))
        if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
            raise DamagedError(f"{store.uri_of(index_name(job))} is not what was submitted: its SHA-256 differs.")
        return cls(data)

    def frame(self, chunk: int) -> Frame:
        return Frame(*_ENTRY.unpack_from(self._data, _HEADER.size + chunk * _ENTRY.size))

    def size(self, chunk: int) -> int:
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


def read_items(store: Store, job: str, index: ManifestIndex) -> Iterator[Item]:
    """Every item of a job, in order: each part of the manifest is one read, and the next one is read ahead.

    Raises:
        DamagedError: A part is not what was written.
    """
    frames = [index.frame(chunk) for chunk in range(index.chunks)]
    parts = [(part, list(group)) for part, group in groupby(frames, key=lambda frame: frame.part)]
    with ThreadPoolExecutor(1) as pool:
        ahead = deque(pool.submit(store.get, part_name(job, part)) for part, _ in parts[:1])
        for n, (_, group) in enumerate(parts):
            data = ahead.popleft().result()
            ahead.extend(pool.submit(store.get, part_name(job, part)) for part, _ in parts[n + 1 : n + 2])
            for frame in group:
                yield from decode(data[frame.offset : frame.offset + frame.length], frame)


def read_lines(store: Store, job: str, index: ManifestIndex) -> Iterator[bytes]:
    """Every item's line, in order, as `write_frames` took it."""
    for part, frames in groupby(map(index.frame, range(index.chunks)), key=lambda frame: frame.part):
        data = store.get(part_name(job, part))
        for frame in frames:
            yield from _complete(_text(data[frame.offset : frame.offset + frame.length]).split(b"\n"), frame)


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
    text = _text(data)
    with decoding("a chunk of the manifest"):
        # Parsing one array is several times as fast as parsing its lines.
        lines = json.loads(b"[" + text.replace(b"\n", b",") + b"]")
        return [_item(frame.first + n, line) for n, line in enumerate(_complete(lines, frame))]


def _complete(lines: list[Any], frame: Frame) -> list[Any]:
    """The lines of a frame, counted."""
    if len(lines) != frame.items:
        raise DamagedError(f"a chunk of the manifest holds {len(lines)} items instead of {frame.items}.")
    return lines


def _text(data: bytes) -> bytes:
    """The lines of a frame."""
    try:
        return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise DamagedError(f"a chunk of the manifest is damaged: {error}.") from None


def _item(index: int, line: str | dict) -> Item:
    if isinstance(line, str):
        return Item(index, line)
    return Item(index, line["uri"], line["meta"])
