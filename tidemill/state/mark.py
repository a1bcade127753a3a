"""The mark `.commit`, and what was written after it.

A program that has made its mark goes on, and may be half-way through its next checkpoint when a worker looks. So the
mark stands only for a folder in which nothing is newer but files that only grow, such as logs. Times tell that down to
a tick of the kernel, which is up to 10 ms long (https://man7.org/linux/man-pages/man7/time.7.html); within one, the
kernel's own order of events tells it (https://man7.org/linux/man-pages/man7/inotify.7.html).
"""

from __future__ import annotations

import ctypes
import os
import struct
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from tidemill.state.append_only import AppendOnlyFiles
from tidemill.state.scan import COMMIT, FileStamp, Scan, StateError, check_mark, folders_of, seen

TICK_NS = 10_000_000
"""The longest tick."""
MAX_WATCHED = 1000
"""Folders whose events are asked for."""
_MODIFY, _ATTRIB, _MOVED, _CREATE, _DELETE = 0x2, 0x4, 0xC0, 0x100, 0x200
_OVERFLOW, _IGNORED, _FOLDER = 0x4000, 0x8000, 0x40000000
_EVENT = struct.Struct("iIII")
_LIBC = ctypes.CDLL(None)
Order = Literal["marked", "written", "unknown"]


class Mark:
    """Knows of a folder whether its mark stands for what is in it. Close it, and ask no more.

    Args:
        folder: The state folder, before its program starts.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.newer: str | None = None
        """A path that was written after the mark, as far as the last question found."""
        self.grown = AppendOnlyFiles(folder)
        self._late = set[str]()
        """Files that have grown since the mark was made, as far as the last question found."""
        self._linked: dict[int, int] = {}
        """By inode: the change time of a file, as our own links have left it."""
        self._order: Order = "unknown"
        """What the kernel has told last: of the mark, or of something made, moved or removed after it."""
        self._written = set[str]()
        """The files that it has told of since the mark."""
        self._events = _inotify()
        self.close = weakref.finalize(self, os.close, self._events) if self._events is not None else lambda: None
        self._watched: dict[str, int] = {}
        """By folder: its watch."""
        self._folders: dict[int, str] = {}
        self._watch([""])

    def seen(self) -> FileStamp | None:
        """The mark as it is now.

        Raises:
            StateError: What has its name is not a file.
        """
        try:
            status = os.lstat(self._folder / COMMIT)
        except OSError:
            return None
        check_mark(status)
        return seen(status)

    def remove(self, mark: FileStamp) -> None:
        """Remove a mark, unless the program has made another one since."""
        try:
            if self.seen() == mark:
                (self._folder / COMMIT).unlink(missing_ok=True)
        except PermissionError as error:
            raise StateError(f"{COMMIT!r} in the state folder cannot be removed: {error.strerror}") from None

    def linked(self, paths: Iterable[str]) -> None:
        """Note that we have linked files and removed the links, which are changes of these files, too."""
        for path in paths:
            with suppress(OSError):
                status = os.stat(self._folder / path)
                self._linked[status.st_ino] = status.st_ctime_ns

    def still(self, mark: FileStamp) -> bool:
        """True if a mark that stood is still the last change in the folder."""
        self._read()
        files = self._late | self._written
        return self._order != "written" and self.seen() == mark and all(map(self.grown.only, files))

    def stands(self, mark: FileStamp, there: Scan, *, rested: bool) -> bool:
        """True if a mark stands for the files that a scan has seen.

        Args:
            mark: The mark, as it was before the scan.
            there: The scan.
            rested: Nothing has been written for a while: then the mark counts where it is unknown which came first.
        """
        self.newer, tie = None, False
        self.grown.marked(mark)
        self._linked = {one.inode: at for one in there.values() if (at := self._linked.get(one.inode)) is not None}
        order = self._told(there)
        try:
            # A mark that was renamed into its place was made then.
            made = _changed(self._folder / COMMIT)
        except OSError:
            return False
        late = set(self._written)
        for path, at in self._times(there):
            if path == "" and order == "marked":
                # To make the mark changes the folder, and a busy disk may hold that up. The kernel tells all the rest.
                continue
            grows = self.grown.has(path)
            # To make the mark changes the folder, perhaps a tick later.
            if at > made + (TICK_NS if path == "" else 0) or (grows and at == made):
                late.add(path or ".")
            # The kernel tells what happens in the folder itself from the start.
            tie = tie or (at >= made and not grows and (path != "" or self._events is None))
        self._late = late
        # Files that need no reading come first.
        self.newer = next((path for path in sorted(late, key=self.grown.has) if not self.grown.only(path)), None)
        if self.newer is not None:
            return False
        if order == "written":
            self.newer = "."
            return False
        return self.seen() == mark and (not tie or order == "marked" or rested)

    def _times(self, there: Scan) -> Iterator[tuple[str, int]]:
        """When files, and the folders that they are in, were changed last."""
        for path, stamp in there.items():
            with suppress(OSError):
                changed = os.stat(self._folder / path).st_ctime_ns
                yield path, stamp.mtime_ns if self._linked.get(stamp.inode) == changed else changed
        for path in folders_of(there):
            with suppress(OSError):
                yield path, _changed(self._folder / path)

    # ---- the kernel's order -------------------------------------------------------------------------------------

    def _told(self, there: Scan) -> Order:
        """Read what has happened. Nothing is known of what happened in folders before they were watched."""
        self._read()
        if self._watch(folders_of(there)) and self._order == "marked":
            self._order = "unknown"
        return self._order

    def _watch(self, folders: Iterable[str]) -> bool:
        """Ask for events of more folders; returns whether there were any."""
        new = [folder for folder in folders if folder not in self._watched]
        mask = _MODIFY | _ATTRIB | _MOVED | _CREATE | _DELETE
        for folder in new if self._events is not None else ():
            if len(self._watched) < MAX_WATCHED:
                place = os.fsencode(self._folder / folder)
                watch = _LIBC.inotify_add_watch(self._events, place, mask)
                if watch >= 0:
                    self._watched[folder], self._folders[watch] = watch, folder
        return bool(new)

    def _read(self) -> None:
        if self._events is None:
            return
        with suppress(BlockingIOError):
            while data := os.read(self._events, 65_536):
                at = 0
                while at < len(data):
                    watch, mask, _, length = _EVENT.unpack_from(data, at)
                    name = data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0")
                    at += _EVENT.size + length
                    self._happened(watch, mask, os.fsdecode(name))

    def _happened(self, watch: int, mask: int, name: str) -> None:
        if mask & _FOLDER and mask & _MOVED:
            # Folders have other names now, and others may get theirs.
            self._watched = {"": self._watched[""]} if "" in self._watched else {}
            self._folders = {one: folder for folder, one in self._watched.items()}
        if mask & _OVERFLOW:
            self._order, self._written = "unknown", set()
        elif mask & _IGNORED:
            # The folder has gone, and may come back as another one.
            self._watched = {folder: one for folder, one in self._watched.items() if one != watch}
        elif name == COMMIT and watch == self._watched.get(""):
            if not mask & (_DELETE | 0x40):
                self._order, self._written = "marked", set()
        elif self._order == "marked" and mask & (_MOVED | _CREATE | _DELETE):
            self._order = "written"
        elif self._order == "marked" and mask & _MODIFY:
            folder = self._folders.get(watch)
            self._written.add("." if folder is None else f"{folder}/{name}".lstrip("/"))


def _changed(path: Path) -> int:
    """When a file or folder was changed last. Its change time is the later one, but for clocks that were set."""
    status = os.lstat(path)
    return max(status.st_mtime_ns, status.st_ctime_ns)


def _inotify() -> int | None:
    """A queue of the kernel's events; None where there are none, or too many are in use."""
    try:
        queue = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except AttributeError:
        return None
    return queue if queue >= 0 else None
