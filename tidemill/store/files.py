"""Files that are transferred to and from a store."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import obstore
from obstore.store import LocalStore

from tidemill.figures import file_size

STREAM_BYTES = 8 * 1024 * 1024
BLOCK_BYTES = 256 * 1024
"""Of one of many transfers at the same time."""
PART_BYTES = 5 * 1024 * 1024
"""The smallest part of an upload in parts; a smaller file is sent in one request."""
_COPY_BYTES = 64 * 1024 * 1024
"""Copied in one call of the system, which nothing stops."""
_CANNOT_COPY = (errno.ENOENT, errno.ENOTDIR, errno.EXDEV, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
MAX_PARTS = 10_000
"""Parts of an upload at most: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html."""


def no_room(size: int, room: int) -> OSError:
    """The error of a full disk, before it is full."""
    return OSError(errno.ENOSPC, f"{file_size(size)} needed, {file_size(max(0, room))} free")


def open_plain(path: Path | str) -> BinaryIO:
    """Open a plain file to read it, or raise `ValueError`: opening anything else may wait forever (a FIFO) or never end
    (a device).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("not a plain file")
    return open(descriptor, "rb", buffering=0)


def how_to_put(size: int) -> dict[str, Any]:
    """Options of a write of so many bytes: at once, or in parts, four side by side."""
    if size <= PART_BYTES:
        return {"use_multipart": False}
    return {"chunk_size": max(PART_BYTES, -(-size // MAX_PARTS)), "max_concurrency": 4}


def put_into(backend: Any, name: str, data: Any, **options: Any) -> None:
    """Write an object. A folder that has vanished is not made anew, without what it held."""
    if isinstance(backend, LocalStore) and not os.path.isdir(str(backend.prefix)):
        raise FileNotFoundError(str(backend.prefix))
    obstore.put(backend, name, data, **options)


def blocks(file: BinaryIO, size: int, digest: hashlib._Hash | None = None) -> Iterator[bytes]:
    """The first bytes of a file, a part at a time; each is added to the digest."""
    while size > 0 and (block := file.read(min(size, PART_BYTES))):
        size -= len(block)
        if digest is not None:
            digest.update(block)
        yield block


def copy_from(backend: Any, name: str, target: BinaryIO, stop: Callable[[], bool]) -> int | None:
    """Copy an object of a folder into an open file and return its bytes. The system copies, and the two share blocks
    where the file system can (Btrfs, XFS).

    None, and nothing written, where the store is no folder, the object is not there, or the system cannot copy so.

    Raises:
        InterruptedError: `stop` was true.
        OSError: The object cannot be read, or the disk is full.
    """
    copied = 0
    try:
        if not isinstance(backend, LocalStore):
            return None
        with open_plain(os.path.join(str(backend.prefix), name)) as file:
            while count := os.copy_file_range(file.fileno(), target.fileno(), _COPY_BYTES):
                if stop():
                    raise InterruptedError(f"the copy of {name} was stopped")
                copied += count
    except OSError as error:
        if copied or error.errno not in _CANNOT_COPY:
            raise
        return None
    return copied
