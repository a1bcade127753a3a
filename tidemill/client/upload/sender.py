"""Sends files of this machine into the job store, several side by side, each named by its content."""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from tidemill import layout
from tidemill.client.items.local_files import BLOCK_BYTES, LocalFile, Reading
from tidemill.client.upload.meter import Meter
from tidemill.errors import CallerError
from tidemill.store import Store
from tidemill.store.files import PART_BYTES

if TYPE_CHECKING:
    from tidemill.client.upload.hashes import Hashes
    from tidemill.client.upload.inventory import Inventory

THREADS = 32
LARGE_THREADS = 2
"""Few, because the C library keeps memory for each thread that has handled large blocks."""
SMALL_BYTES = 1024 * 1024
"""A file up to this size is read once: it is hashed and sent from memory."""
_PARTS_BYTES = 6 * PART_BYTES
"""Most bytes of memory for a larger one while it is sent: four parts under way, and the next."""
_MEMORY_BYTES = 8 * PART_BYTES
"""Most bytes of memory for all transfers together."""
_WINDOW = 1024
"""Files that are looked at ahead of the oldest that is not sent yet."""


class StoredFile(NamedTuple):
    """A file that is in the store."""

    file: LocalFile
    sha256: str

    @property
    def name(self) -> str:
        """Its object."""
        return layout.uploaded(self.sha256, self.file.name)


class Sender:
    """Sends files; what the store has already is not sent, and what is known is not read.

    Args:
        store: The job store.
        inventory: What the store has.
        hashes: What is known of this machine's files.
        meter: Counts what is done.
    """

    def __init__(self, store: Store, inventory: Inventory, hashes: Hashes, meter: Meter) -> None:
        self._store, self._inventory, self._hashes, self._meter = store, inventory, hashes, meter
        self._room = _MemoryBudget(_MEMORY_BYTES)

    def send(self, files: Iterable[LocalFile | None]) -> Iterator[StoredFile | None]:
        """Files once they are in the store, in their order; None stays None.

        Raises:
            CallerError: A file cannot be read, or has changed since it was looked at.
            CloudError: The store refused. What is in the store stays there.
        """
        underway: deque[Future[StoredFile] | StoredFile | None] = deque()
        small = ThreadPoolExecutor(THREADS, thread_name_prefix="upload")
        large = ThreadPoolExecutor(LARGE_THREADS, thread_name_prefix="upload-large")
        try:
            for file in files:
                underway.append(
                    None if file is None else self._begin(file, small if file.size <= SMALL_BYTES else large)
                )
                while underway and (len(underway) >= _WINDOW or not isinstance(underway[0], Future)):
                    yield self._ended(underway.popleft())
            while underway:
                yield self._ended(underway.popleft())
        finally:
            self._room.close()
            for pool in (small, large):
                pool.shutdown(wait=True, cancel_futures=True)
            self._hashes.save()

    def _begin(self, file: LocalFile, pool: ThreadPoolExecutor) -> Future[StoredFile] | StoredFile:
        sha256 = self._hashes.find(file)
        if sha256 and self._inventory.listed:
            sent = StoredFile(file, sha256)
            if self._inventory.has(sent.name):
                return sent
        return pool.submit(self._bring, file, sha256)

    def _ended(self, one: Future[StoredFile] | StoredFile | None) -> StoredFile | None:
        if not isinstance(one, Future):
            return one
        sent = one.result()
        self._hashes.note(*sent)
        return sent

    def _bring(self, file: LocalFile, remembered: str | None) -> StoredFile:
        """In a thread of the pool."""
        sent = self._bring_small(file, remembered) if file.size <= SMALL_BYTES else self._bring_large(file, remembered)
        self._meter.add(1, 0)
        return sent

    def _bring_small(self, file: LocalFile, remembered: str | None) -> StoredFile:
        if remembered and self._inventory.has(StoredFile(file, remembered).name):
            return StoredFile(file, remembered)
        with self._room.of(file.size):
            with Reading(file) as reading:
                data = reading.whole()
            sent = StoredFile(file, hashlib.sha256(data).hexdigest())
            if self._inventory.claim(sent.name):
                self._store.put(sent.name, data)
        self._meter.add(0, file.size)
        return sent

    def _bring_large(self, file: LocalFile, remembered: str | None) -> StoredFile:
        with Reading(file, self._room.check) as reading:
            with self._room.of(BLOCK_BYTES):
                sha256 = remembered or reading.sha256()
            sent = StoredFile(file, sha256)
            if not self._inventory.claim(sent.name):
                self._meter.add(0, file.size)
                return sent
            try:
                with self._room.of(min(_PARTS_BYTES, 2 * file.size)):
                    self._store.put(sent.name, lambda: self._counted(reading, sha256), file.size)
            except CallerError:
                self._inventory.disclaim(sent.name)
                if remembered is None:
                    raise
                # Its remembered hash may be wrong. If it still changes, this raises.
                return self._bring_large(file, None)
        return sent

    def _counted(self, reading: Reading, sha256: str) -> Iterator[bytes]:
        """The blocks of a file. Raises `CallerError` at the end if they are not those of the hash: an object named by
        it stands for that content, for everyone."""
        passed, digest = 0, hashlib.sha256()
        try:
            for block in reading.blocks(BLOCK_BYTES):
                passed += len(block)
                digest.update(block)
                self._meter.add(0, len(block))
                yield block
            if digest.hexdigest() != sha256:
                raise reading.changed()
        except BaseException:
            # The store did not take it, and may be asked again.
            self._meter.add(0, -passed)
            raise


class _MemoryBudget:
    """Bytes that transfers may hold together; closed, it ends them."""

    def __init__(self, size: int) -> None:
        self._size = self._left = size
        self._changed = threading.Condition()
        self._closed = False

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        size = min(size, self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._left >= size)
            self.check()
            self._left -= size
        try:
            yield
        finally:
            with self._changed:
                self._left += size
                self._changed.notify_all()

    def check(self) -> None:
        if self._closed:
            raise InterruptedError("the upload was stopped")

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
