"""Lists an item's output folder: every file, or the reason why not every file can be uploaded.

A program can leave anything there. Nothing here opens a file, follows a link out of the folder, or runs forever.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, NoReturn

from tidemill.errors import shown
from tidemill.worker.programs.faults import ItemError

MAX_FILES = 1_000_000
"""Output files per item. Linked folders can multiply a few files without bound."""
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class _Folder(NamedTuple):
    """A folder on the walk."""

    name: str
    """In the output folder, with a trailing slash; empty for the folder itself."""
    real: str
    """Its path from the output folder on, without links."""
    above: tuple[str, ...]
    """The same of the folders whose links led here."""


def output_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Every file of an output folder: its path, and its name in the folder.

    Linked files and folders are followed as long as they stay inside the folder: a link that leads outside would
    publish what the item may not publish.

    Raises:
        ItemError: Something in the folder cannot be uploaded.
    """
    top = os.fspath(folder)
    try:
        mode = os.lstat(top).st_mode
    except FileNotFoundError:
        raise ItemError("output", "the output folder is gone: the program removed or moved it", final=True) from None
    if not stat.S_ISDIR(mode):
        raise ItemError("output", "the program replaced the output folder by something else", final=True)
    waiting, count = [_Folder("", "", ())], 0
    while waiting:
        walked = waiting.pop()
        with os.scandir(f"{top}/{walked.name}") as entries:
            for entry in entries:
                nested = _look(entry, walked, top)
                if nested is not None:
                    waiting.append(nested)
                    continue
                count += 1
                if count > MAX_FILES:
                    raise ItemError("output", f"there are more than {MAX_FILES} output files", final=True)
                yield entry.path, walked.name + entry.name


def _look(entry: os.DirEntry[str], walked: _Folder, top: str) -> _Folder | None:
    """The folder that an entry is, or None for a file; anything else is refused."""
    name = walked.name + entry.name
    if entry.is_symlink():
        return _follow(entry.path, name, walked, top)
    if entry.is_dir(follow_symlinks=False):
        return _Folder(f"{name}/", f"{walked.real}/{entry.name}", walked.above)
    if not entry.is_file(follow_symlinks=False):
        _refuse_kind(name, entry.stat(follow_symlinks=False).st_mode)
    return None


def _follow(path: str, name: str, walked: _Folder, top: str) -> _Folder | None:
    root, target = os.path.realpath(top), os.path.realpath(path)
    if not _is_in(target, root):
        _refuse(name, "is a link that leads outside the output folder")
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        _refuse(name, "is a link that leads nowhere")
    except OSError as error:
        _refuse(name, f"is a link that cannot be followed: {error.strerror}")
    if stat.S_ISREG(mode):
        return None
    if not stat.S_ISDIR(mode):
        _refuse_kind(name, mode)
    target = target[len(root) :]
    above = (*walked.above, walked.real)
    if any(_is_in(one, target) for one in above):
        _refuse(name, "is a link to a folder that contains it")
    return _Folder(f"{name}/", target, above)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _refuse_kind(name: str, mode: int) -> NoReturn:
    kind = _KINDS.get(stat.S_IFMT(mode), "something else")
    _refuse(name, f"is {kind}, neither a file nor a folder")


def _refuse(name: str, why: str) -> NoReturn:
    raise ItemError("output", f"{shown(name)} {why}", final=True)
