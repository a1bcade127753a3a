"""The folder of a fetch: the files of earlier fetches, files to keep, and links, which a fetch never follows."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidemill.client.results.item_names import ItemNames

INDEX = ".tidemill-fetched"
"""The index of a folder. No item can have this name."""
_NOT_OURS = "another file is there, or it was changed after it was fetched; `overwrite=True` replaces it"


class FetchTarget:
    """A folder that fetches write into. Its index has a line for each file that they wrote: name, size and time.

    A file that is there and in the index as it is may be replaced. Any other file is somebody's work and stays, unless
    `overwrite` is true. Nothing is written through a link below the folder; the folder itself may be one.

    Raises:
        OSError: The folder or its index cannot be made or written.
    """

    def __init__(self, folder: Path, overwrite: bool = False) -> None:
        self.folder, self._overwrite = folder, overwrite
        self._lock = threading.Lock()
        self._made: str | None = None
        """The folder, below this one, that is known to be there."""
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        try:
            self._index = os.open(folder / INDEX, flags, 0o666)
        except OSError as error:
            why = "is a link" if error.errno == errno.ELOOP else error.strerror
            raise OSError(error.errno, f"{INDEX}: {why}") from None
        self._written: set[bytes] = set()
        self._read_bytes = 0
        self._read()

    def close(self) -> None:
        os.close(self._index)

    def stat(self, name: str) -> os.stat_result | None:
        """Status of the file under a name; a link is not followed."""
        try:
            return os.stat(self.folder / name, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def claim(self, name: str) -> Path:
        """The path that a file may be written to now, with its folders made.

        Raises:
            OSError: A link or a file is where a folder has to be, or something is there that must stay.
        """
        above = name.rpartition("/")[0]
        if above != self._made:
            self._make_folders(above)
            self._made = above
        if (there := self.stat(name)) is not None:
            if stat.S_ISDIR(there.st_mode):
                raise IsADirectoryError(errno.EISDIR, "a folder is there")
            if not self._overwrite and not self._is_ours(_line(name, there)):
                raise FileExistsError(errno.EEXIST, _NOT_OURS)
        return self.folder / name

    def _make_folders(self, above: str) -> None:
        path = self.folder
        for part in filter(None, above.split("/")):
            path /= part
            try:
                os.mkdir(path)
            except FileExistsError:
                mode = os.lstat(path).st_mode
                if stat.S_ISLNK(mode):
                    name = path.relative_to(self.folder).as_posix()
                    raise OSError(errno.ELOOP, f"{name} is a link, and a fetch writes through none") from None
                if not stat.S_ISDIR(mode):
                    raise

    def _is_ours(self, line: bytes) -> bool:
        if line not in self._written:
            # Another fetch may have written it since.
            self._read()
        return line in self._written

    def _read(self) -> None:
        with self._lock, open(self._index, "rb", closefd=False) as file:
            file.seek(self._read_bytes)
            self._written.update(line.rstrip(b"\n") for line in file)
            self._read_bytes = file.tell()

    def place(self, part: Path, name: str) -> None:
        """Give a complete file its name. What has come there while it was on its way stays, too.

        Raises:
            OSError: As of `claim`, or the index cannot be written.
        """
        path = self.claim(name)
        self.wrote(name, os.stat(part))
        os.replace(part, path)

    def wrote(self, name: str, file: os.stat_result) -> None:
        """Note a file, once it has its size and time: before it gets its name, or when it is there already."""
        line = _line(name, file)
        with self._lock:
            if line not in self._written:
                # The first byte ends what a fetch that was killed may have left of a line.
                if os.write(self._index, b"\n" + line) <= len(line):
                    raise OSError(errno.ENOSPC, f"{INDEX}: disk full")
                self._written.add(line)


@dataclass(frozen=True)
class FetchContext:
    """The shared context of a fetch's parts.

    Attributes:
        wanted: Indexes of the items that are fetched; None for all.
        names: The items' names in the folder.
        problems: Takes files that were not written, each with the reason.
        look: Called several times a second.
    """

    target: FetchTarget
    wanted: set[int] | None
    names: ItemNames
    problems: list[tuple[str, str]]
    look: Callable[[], None]

    def wants(self, item: int) -> bool:
        return self.wanted is None or item in self.wanted


def _line(name: str, file: os.stat_result) -> bytes:
    return json.dumps([name, file.st_size, file.st_mtime_ns]).encode()
