"""Files of this machine that a job brings: found, looked at, read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple
from urllib.parse import unquote

from tidemill import secrecy
from tidemill.errors import CallerError
from tidemill.store import open_plain

BLOCK_BYTES = 1024 * 1024


class LocalFile(NamedTuple):
    """A file as it was when it was looked at. Another size, time or inode means another content. The time of its last
    change, which no program can set, tells a file that was written again with its old time of modification."""

    path: str
    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int

    @property
    def name(self) -> str:
        """The last part of its path, which its object keeps."""
        return os.path.basename(self.path)


def path_of(uri: str) -> str | None:
    """The path that an item names, by itself or as a `file://` URI; None for another URI."""
    scheme, is_uri, rest = uri.partition("://")
    if not is_uri:
        return uri
    return unquote(rest.removeprefix("localhost")) if scheme == "file" else None


def look(path: str, root: str | None = None) -> LocalFile:
    """Look at a file without reading it.

    Args:
        path: Links are followed.
        root: The folder that it was found in, without links: a link in there must not lead out of it.

    Raises:
        CallerError: It is not a plain file, cannot be read, is a link that leads out of the folder, or was found in a
            folder and looks like a secret.
    """
    try:
        status = os.stat(path)
        if root is not None and os.path.islink(path):
            _check_inside(path, root)
    except OSError as error:
        raise unreadable(path, error) from None
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a plain file"
        raise CallerError(f"{path!r} is {kind}.", "Name a file; `items` takes a folder.", what="items")
    if not os.access(path, os.R_OK):
        raise unreadable(path, PermissionError(13, "Permission denied"))
    if root is not None:
        _check_secret(path, status.st_size)
    return _seen(path, status)


def _check_secret(path: str, size: int) -> None:
    """A file that is named by itself is meant; one in a folder may be there by accident."""
    above = os.path.dirname(path).split("/")
    folder = any(secrecy.is_login_folder("/".join(above[:depth])) for depth in range(len(above), 0, -1))
    if folder or secrecy.is_secret(path, size, code=False):
        raise CallerError(
            f"{path!r} may hold secrets, and everyone who may read the job store could read it.",
            f"Move it out of the folder, or name it by itself. {secrecy.INSTEAD}",
            what="items",
        )


def _seen(path: str, status: os.stat_result) -> LocalFile:
    return LocalFile(path, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


def _check_inside(path: str, root: str) -> None:
    target = os.path.realpath(path)
    if not target.startswith(f"{root.rstrip('/')}/"):
        raise CallerError(
            f"The link {path!r} leads to {target}, out of the folder.",
            "Copy the file into the folder, or name it by itself.",
            what="items",
        )


def unreadable(path: str, error: OSError) -> CallerError:
    """The error for a file that is not there or may not be read."""
    if os.path.islink(path) and not os.path.exists(path):
        why = f"it is a link to {os.readlink(path)}, which does not exist"
    else:
        why = error.strerror or str(error)
    return CallerError(f"{path!r} cannot be read: {why}.", "Correct or remove it, then repeat.", what="items")


class Reading:
    """A file that is open; every read checks that it is still the one that was looked at.

    Args:
        file: As it was looked at.
        check_stop: Called before each block; it raises to end the transfer.
    """

    def __init__(self, file: LocalFile, check_stop: Callable[[], None] = lambda: None) -> None:
        self._file, self._check_stop = file, check_stop
        try:
            self._open: BinaryIO = open_plain(file.path)
        except OSError as error:
            raise unreadable(file.path, error) from None
        except ValueError as error:
            raise unreadable(file.path, OSError(0, str(error))) from None

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def whole(self) -> bytes:
        """All of it. Raises `CallerError` if it is another file now."""
        return b"".join(self.blocks(BLOCK_BYTES))

    def blocks(self, size: int) -> Iterator[bytes]:
        """All of it in blocks, from its beginning. Raises `CallerError` at the end if it is another file now."""
        left = self._file.size
        self._open.seek(0)
        while left > 0 and (block := self._open.read(min(size, left))):
            self._check_stop()
            left -= len(block)
            yield block
        if left or self._file != _seen(self._file.path, os.fstat(self._open.fileno())):
            raise self.changed()

    def changed(self) -> CallerError:
        return CallerError(
            f"{self._file.path!r} changed while it was read: something still writes to it.",
            "Repeat the command when that has ended; what is uploaded already stays.",
            what="items",
        )

    def sha256(self) -> str:
        digest = hashlib.sha256()
        for block in self.blocks(BLOCK_BYTES):
            digest.update(block)
        return digest.hexdigest()
