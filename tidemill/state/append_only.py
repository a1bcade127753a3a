"""Files of a state folder that only grow, such as logs: what a program adds to one belongs to no checkpoint.

A file counts as one that grows once two looks in a row have found it longer and the second one has found the bytes of
the first again. What a mark may leave out was learnt before the mark was made: later, the file may be the next
checkpoint that is being written.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidemill.state.scan import FileStamp, Scan
from tidemill.store import STREAM_BYTES, open_plain

MAX_BYTES = 256 * 2**20
"""A file that is longer than this is compared no more, and counts as one of a checkpoint."""
PART_OF_A_DATABASE = "-wal"
"""How SQLite names a file that only grows for a while and is state all the same (https://sqlite.org/wal.html)."""


@dataclass
class _FileStart:
    """The beginning of a file: the bytes that it had at a look."""

    inode: int
    size: int
    digest: hashlib._Hash
    grows: bool = False
    """True if they begin with those of an earlier look."""


class AppendOnlyFiles:
    """The files of a folder that have only grown.

    Args:
        folder: The state folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: Scan = {}
        self._known: dict[str, _FileStart] = {}
        self._before: dict[str, tuple[int, int, bytes]] = {}
        """By path: inode, size and digest of what grew before the mark was made."""
        self._rewritten = set[str]()
        self._after: FileStamp | None = None
        """The mark that was there when something was learnt last."""

    def marked(self, mark: FileStamp | None) -> None:
        """Take what was learnt for what came before a mark, if the mark was made since."""
        if mark != self._after:
            self._after = mark
            self._before = {
                path: (start.inode, start.size, start.digest.digest())
                for path, start in self._known.items()
                if start.grows
            }

    def learn(self, there: Scan, mark: Callable[[], FileStamp | None]) -> None:
        """Compare a folder with the last look.

        Args:
            there: The folder now.
            mark: Asked for the mark once the files have been read.
        """
        for path, now in there.items():
            was = self._last.get(path)
            if was is None or was == now:
                continue
            start = self._known.pop(path, None)
            if now.inode != was.inode or now.size > MAX_BYTES or path.endswith(PART_OF_A_DATABASE):
                continue
            if path in self._rewritten or now.size <= was.size:
                self._rewritten.add(path)
            elif (longer := self._longer(path, now, start)) is not None:
                self._known[path] = longer
        self._known = {path: start for path, start in self._known.items() if path in there}
        self._last = there
        # Files made meanwhile may be older than those that were read.
        self._after = mark()

    def has(self, path: str) -> bool:
        """True if a file grew before the mark was made."""
        return path in self._before

    def only(self, path: str) -> bool:
        """True if a file still begins with its content from before the mark was made."""
        if path not in self._before:
            return False
        inode, size, wanted = self._before[path]
        return self._begins(path, inode, size, wanted)

    def _longer(self, path: str, now: FileStamp, start: _FileStart | None) -> _FileStart | None:
        """A file that has become longer; None if it does not begin as it did."""
        digest, begun = hashlib.sha256(), 0
        if start:
            # Once it is known to grow, the bytes before are compared when a mark depends on them.
            if not start.grows and not self._begins(path, now.inode, start.size, start.digest.digest()):
                return None
            digest, begun = start.digest, start.size
        if not self._read(path, now.inode, begun, now.size, digest):
            return None
        return _FileStart(now.inode, now.size, digest, grows=start is not None)

    def _begins(self, path: str, inode: int, size: int, wanted: bytes) -> bool:
        """True if a file begins with known bytes. A rewritten file never again counts as one that only grows; another
        one of its name, as after the rotation of a log, may."""
        digest = hashlib.sha256()
        if self._read(path, inode, 0, size, digest) and digest.digest() == wanted:
            return True
        with suppress(OSError):
            if os.stat(self._folder / path).st_ino == inode:
                self._rewritten.add(path)
        self._known.pop(path, None)
        self._before.pop(path, None)
        return False

    def _read(self, path: str, inode: int, start: int, end: int, digest: hashlib._Hash) -> bool:
        """Add bytes of a file to a digest; returns whether all of them are there."""
        try:
            with open_plain(self._folder / path) as file:
                if os.fstat(file.fileno()).st_ino != inode:
                    return False
                file.seek(start)
                while start < end and (block := file.read(min(STREAM_BYTES, end - start))):
                    digest.update(block)
                    start += len(block)
        except (OSError, ValueError):
            return False
        return start == end
