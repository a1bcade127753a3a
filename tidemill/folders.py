"""Where Tidemill keeps files of a user on this machine, and how it replaces one."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def cache_folder() -> Path:
    """The user's cache folder for Tidemill. What is in it may be lost at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemill"


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file under another name, then put it in its place: a reader sees the old one or the new one, whole.

    Args:
        mode: Without it only the user may read the file.

    Raises:
        OSError: It cannot be written. The old one is unchanged.
    """
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Held by one process of those that change a file of a folder, from the last look at it to its replacement."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        # NFS locks no folder; the last look alone is then what there is.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
