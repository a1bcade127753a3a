"""Remove what a program has left, whatever it has made of it."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path


def remove(path: Path) -> None:
    """Remove a tree, a file or a link, whatever a program has made of it. What is not ours to remove stays.

    Folders are moved to the top of the tree before they are looked into, so it may be deeper than a path can be long
    or calls can be nested. Links are not followed.
    """
    with suppress(OSError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        _clear_tree(path)
        path.rmdir()


def clear(folder: Path) -> None:
    """Remove what is in a folder, as `remove` does. The folder stays: making another is expensive, because ext4 does
    not soon use the inode of a removed one again and looks past all of those."""
    with suppress(OSError):
        _clear_tree(folder)


def _clear_tree(path: Path) -> None:
    top = _open_folder(path, None)
    try:
        waiting = _clear(top, top)
        while waiting:
            name = waiting.pop()
            with suppress(OSError):
                folder = _open_folder(name, top)
                try:
                    waiting += _clear(folder, top)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)


def _open_folder(path: Path | str, above: int | None) -> int:
    """Open a folder, even if its owner has no access."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        folder = os.open(path, flags, dir_fd=above)
    except PermissionError:
        os.chmod(path, 0o700, dir_fd=above)
        folder = os.open(path, flags, dir_fd=above)
    if os.fstat(folder).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with suppress(PermissionError):
            os.fchmod(folder, 0o700)
    return folder


def _clear(folder: int, top: int) -> list[str]:
    """Remove what is in a folder, and move its folders to the top of the tree; returns their names there."""
    moved: list[str] = []
    with os.scandir(folder) as entries:
        for entry in list(entries):
            with suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=folder)
                    continue
                name = entry.name
                if folder != top:
                    name = f".{secrets.token_hex(8)}"
                    # A folder must be writable to be moved.
                    os.chmod(entry.name, 0o700, dir_fd=folder)
                    os.rename(entry.name, name, src_dir_fd=folder, dst_dir_fd=top)
                moved.append(name)
    return moved
