"""Where Tidemill keeps files of a user on this machine, and how it replaces one."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
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
