"""Scans a state folder: its files at one moment, and those that a process is writing.

A program can leave anything there. Nothing here opens a file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tidemill.errors import shown
from tidemill.tree import PART

COMMIT = ".commit"
"""The file by which a program says that its state is consistent now. It is removed when a snapshot holds that state."""
MAX_FILES = 100_000
"""Files of a state: a snapshot lists all of them."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class StateError(Exception):
    """The folder holds what no snapshot can keep. It will not become better by itself."""


class FileStamp(NamedTuple):
    """A file as a scan saw it. A file with the same three values was not changed."""

    size: int
    mtime_ns: int
    inode: int


def seen(status: os.stat_result) -> FileStamp:
    return FileStamp(status.st_size, status.st_mtime_ns, status.st_ino)


Scan = dict[str, FileStamp]
"""By path in the folder: its files."""


def scan(folder: Path, *, strict: bool = True) -> Scan:
    """Every file of a state folder. A link is followed to a file of the same folder, so that a copy of it is kept.

    Args:
        folder: The state folder.
        strict: Whether what cannot be kept is an error; otherwise it is passed over.

    Raises:
        StateError: The folder is gone, or something in it cannot be kept.
    """
    top = os.fspath(folder)
    root = os.path.realpath(top)
    files: Scan = {}
    waiting = [""]
    if os.path.islink(top):
        raise StateError("the state folder is a link: the program has replaced it")
    while waiting:
        prefix = waiting.pop()
        try:
            with os.scandir(f"{top}/{prefix}") as entries:
                for entry in entries:
                    try:
                        _look(entry, prefix, root, files, waiting)
                    except StateError:
                        if strict:
                            raise
        except (FileNotFoundError, NotADirectoryError):
            if not prefix:
                raise StateError("the state folder is gone: the program removed or moved it") from None
        except OSError as error:
            if strict:
                raise _unreadable(prefix, error) from None
    return files


def _look(entry: os.DirEntry[str], prefix: str, root: str, files: Scan, waiting: list[str]) -> None:
    name = f"{prefix}{entry.name}"
    if name == COMMIT:
        with suppress(FileNotFoundError):
            check_mark(entry.stat(follow_symlinks=False))
        return
    if entry.name.startswith(PART):
        return
    if entry.is_dir(follow_symlinks=False):
        waiting.append(f"{name}/")
        return
    try:
        if entry.is_symlink():
            _check_link(entry, name, root)
        status = entry.stat()
    except FileNotFoundError:
        # It went while we looked: the next scan differs.
        return
    except OSError as error:
        raise _unreadable(name, error) from None
    if not stat.S_ISREG(status.st_mode):
        raise StateError(f"{shown(name)} in the state folder is {_kind(status)}, neither a file nor a folder")
    files[name] = seen(status)
    if len(files) > MAX_FILES:
        raise StateError(f"the state folder holds more than {MAX_FILES} files; pack them, for example with tar")


def _unreadable(path: str, error: OSError) -> StateError:
    what = f"{shown(path)} in the state folder" if path else "the state folder"
    return StateError(f"{what} cannot be read: {error.strerror}")


def _check_link(entry: os.DirEntry[str], name: str, root: str) -> None:
    target = os.path.realpath(entry.path)
    if not target.startswith(f"{root}/"):
        raise StateError(f"{shown(name)} in the state folder is a link that leads outside it")
    if os.path.isdir(target):
        raise StateError(f"{shown(name)} in the state folder is a link to a folder")


def folders_of(paths: Iterable[str]) -> set[str]:
    """The folders that files of a folder are in, and those above them; the folder itself is the empty one."""
    folders = {""}
    for folder in paths:
        while (folder := folder.rpartition("/")[0]) not in folders:
            folders.add(folder)
    return folders


def check_mark(status: os.stat_result) -> None:
    """Refuse, with `StateError`, what has the name of the mark and is not a file."""
    if not stat.S_ISREG(status.st_mode):
        raise StateError(f"{COMMIT!r} in the state folder is {_kind(status)}, not a file: make it with `touch`")


def _kind(status: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(status.st_mode), "something else")


def mapped_files(folder: Path) -> set[str]:
    """Those of `open_files` that are mapped: what a program writes there may leave a file's time as it was."""
    return open_files(folder, mapped_only=True)


def open_files(folder: Path, *, mapped_only: bool = False) -> set[str]:
    """Paths in a folder that some process on this machine has open for writing, as far as we may see.

    Descriptors (``/proc/<pid>/fd``, ``fdinfo``) and shared writable mappings (``/proc/<pid>/maps``) count:
    https://man7.org/linux/man-pages/man5/proc.5.html. Processes of other users stay unseen unless we are root, and so
    does everything where there is no ``/proc``: then two equal scans have to suffice.
    """
    root = f"{os.path.realpath(folder)}/"
    paths: set[str] = set()
    for pid in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if pid.isdigit():
            written = _mapped_by(f"/proc/{pid}") if mapped_only else _written_by(f"/proc/{pid}")
            paths.update(path[len(root) :] for path in written if path.startswith(root))
    return paths


def _written_by(process: str) -> Iterator[str]:
    yield from _mapped_by(process)
    try:
        descriptors = os.listdir(f"{process}/fd")
    except OSError:
        return
    for descriptor in descriptors:
        try:
            path = os.readlink(f"{process}/fd/{descriptor}")
            if path.startswith("/") and _writes(f"{process}/fdinfo/{descriptor}"):
                yield path
        except OSError:
            continue


def _mapped_by(process: str) -> Iterator[str]:
    try:
        with open(f"{process}/maps", "rb") as maps:
            for line in maps:
                fields = line.split(maxsplit=5)
                if len(fields) == 6 and fields[1][1:4:2] == b"ws":
                    yield os.fsdecode(fields[5].rstrip(b"\n"))
    except OSError:
        return


def _writes(info: str) -> bool:
    with open(info, "rb") as file:
        for line in file:
            if line.startswith(b"flags:"):
                return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False
