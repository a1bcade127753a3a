"""Lets programs of emulated machines wait for a test."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


class Gate:
    """A lock that programs wait for to go, so that a test can look at them for as long as it takes.

    Attributes:
        wait: The shell command that waits. To look for a file instead takes a process for each look.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        fcntl.flock(file, fcntl.LOCK_EX)
        # The file is gone for programs that start after the block.
        self.wait = f"test ! -e {file.name} || flock --shared 9 9< {file.name}"

    def open(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)


@contextmanager
def gate() -> Iterator[Gate]:
    """A closed gate; it opens at the latest when the block ends."""
    # Not in /tmp, because each container has its own.
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        yield Gate(file)
