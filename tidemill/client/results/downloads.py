"""Objects on their way to files of this machine: many at once, each complete under its name or not there at all."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from tidemill.client.results.fetch_report import TransferProgress
from tidemill.client.results.fetch_target import FetchTarget
from tidemill.errors import CallerError, StoreMissingError, shown
from tidemill.store import BLOCK_BYTES, Entry, Store

THREADS = 24
PIECE_BYTES = 32 * 1024 * 1024
"""A larger file comes in pieces, side by side."""
PARTS = ".tidemill-fetch-"
"""How the name of the folder begins that holds what is not complete."""
_AHEAD = 4 * THREADS
_LOOK_SECONDS = 0.2
_SAME_SECONDS = 0.001
"""Stores tell times this exactly."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


@dataclass
class _PendingFile:
    """A file that is coming, in one or more pieces."""

    store: Store
    entry: Entry
    name: str
    part: Path
    pieces: int


class Downloads:
    """Brings objects into a folder. A context: when it ends, everything is there or an error was raised.

    A file gets its object's time of modification. One that has the object's size and time already is complete and
    stays, so the same downloads continue where earlier ones ended.

    Args:
        target: The folder, which is created.
        moved: Counts what comes.
        look: Called several times a second while the caller waits.
    """

    def __init__(self, target: FetchTarget, moved: TransferProgress, look: Callable[[], None] = lambda: None) -> None:
        self._target, self._folder, self.moved, self._look = target, target.folder, moved, look
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="download")
        self._room = threading.Semaphore(_AHEAD)
        self._lock = threading.Lock()
        self._numbers = count()
        self._error: Exception | None = None
        self._stopped = False

    def __enter__(self) -> Downloads:
        self._holding = parts_folder(self._folder)
        self._parts = self._holding.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stopped = kind is not None
        try:
            if kind is None:
                self._wait()
        finally:
            self._stopped = True
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._holding.__exit__(None, None, None)

    def add(self, store: Store, entry: Entry, name: str) -> None:
        """Bring an object to a name below the folder, unless it is there. Waits while many are coming.

        Raises:
            CallerError: The disk is full or read-only.
            StoreError: The store refused, or did not answer within its bounds; this may be of an earlier object.
        """
        self._check()
        try:
            there = self._target.stat(name)
            if there is not None and _is_same(there, entry):
                self._target.wrote(name, there)
                self.moved.kept += 1
                self.moved.kept_bytes += entry.size
                return
            self._target.claim(name)
            free = shutil.disk_usage(self._folder).free if entry.size > PIECE_BYTES else entry.size
            if entry.size > free:
                raise OSError(errno.ENOSPC, "disk full")
        except OSError as error:
            self._failed(name, error)
            self._check()
            return
        starts = range(0, max(1, entry.size), PIECE_BYTES)
        coming = _PendingFile(store, entry, name, self._parts / str(next(self._numbers)), len(starts))
        for start in starts:
            while not self._room.acquire(timeout=_LOOK_SECONDS):
                self._look()
                self._check()
            self._pool.submit(self._bring, coming, start).add_done_callback(self._ended)
        self._look()

    def _ended(self, _: Future[None]) -> None:
        self._room.release()

    def _wait(self) -> None:
        """Until nothing is coming any more."""
        for _ in range(_AHEAD):
            while not self._room.acquire(timeout=_LOOK_SECONDS):
                self._look()
                self._check()
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _bring(self, coming: _PendingFile, start: int) -> None:
        if self._stopped or self._error is not None:
            return
        try:
            self._write(coming, start, min(start + PIECE_BYTES, coming.entry.size))
            with self._lock:
                coming.pieces -= 1
                last = coming.pieces == 0
            if last:
                self._complete(coming)
        except StoreMissingError:
            self._failed(coming.name, FileNotFoundError(errno.ENOENT, "its object is not there any more"))
        except OSError as error:
            self._failed(coming.name, error)
        except Exception as error:  # whatever it is, the caller's thread raises it
            self._error = self._error or error

    def _write(self, coming: _PendingFile, start: int, end: int) -> None:
        """Bring a piece to its place in the file."""
        descriptor = os.open(coming.part, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            for block in coming.store.stream(coming.entry.name, start, end, BLOCK_BYTES) if end > start else ():
                if self._stopped:
                    raise InterruptedError(errno.EINTR, "stopped")
                os.pwrite(descriptor, block, start)
                start += len(block)
                with self._lock:
                    self.moved.bytes += len(block)
        finally:
            os.close(descriptor)

    def _complete(self, coming: _PendingFile) -> None:
        modified = coming.entry.modified
        os.utime(coming.part, (modified, modified))
        self._target.place(coming.part, coming.name)
        with self._lock:
            self.moved.files += 1

    def _failed(self, name: str, error: OSError) -> None:
        with self._lock:
            self._error = self._error or full(self._folder, error)
            if self._error is None:
                self.moved.problems.append((name, error.strerror or str(error)))


def _is_same(status: os.stat_result, entry: Entry) -> bool:
    same_time = abs(status.st_mtime - entry.modified) < _SAME_SECONDS
    return stat.S_ISREG(status.st_mode) and status.st_size == entry.size and same_time


@contextmanager
def parts_folder(folder: Path) -> Iterator[Path]:
    """A folder in another one, which is made too, for what is not complete. It goes when the block ends, or when a
    later fetch finds it.

    Raises:
        CallerError: The folder cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _sweep(folder)
        parts = Path(tempfile.mkdtemp(prefix=PARTS, dir=folder))
    except OSError as error:
        raise unwritable(folder, error) from None
    hold = _held(parts)
    try:
        yield parts
    finally:
        if hold is not None:
            os.close(hold)
        shutil.rmtree(parts, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what fetches that were killed have left in a folder. Those that still run hold theirs."""
    for path in folder.glob(f"{PARTS}*"):
        hold = _held(path)
        if hold is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(hold)


def _held(folder: Path) -> int | None:
    """A lock on a folder, as a descriptor; None where it is held, or where there are no locks."""
    # Windows has none.
    with suppress(ImportError, OSError):
        from tidemill.folders import hold

        return hold(folder)
    return None


def full(folder: Path, error: OSError | None = None) -> CallerError | None:
    """The error of a disk that takes no more; None for an error of another kind."""
    if error is not None and error.errno not in _FULL:
        return None
    return CallerError(
        f"output: {shown(str(folder))} takes no more data: its disk is full, over its quota or read-only.",
        "Free some space, then repeat the command: it fetches only what is missing.",
        what="output",
        value=shown(str(folder)),
    )


def unwritable(folder: Path, error: OSError) -> CallerError:
    """The error of a folder that cannot be made or written."""
    why = error.strerror or str(error)
    return CallerError(
        f"output: {shown(str(folder))} cannot be written: {why}.",
        "Name a folder that you can write.",
        what="output",
        value=shown(str(folder)),
        allowed="a folder that can be written",
    )
