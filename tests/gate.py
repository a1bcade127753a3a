"""Lets programs of emulated machines wait for a test."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Gate:
    """A file that programs wait for to go, so that a test can look at them for as long as it takes.

    Attributes:
        wait: The shell command that waits.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self.wait = f"while test -e {file}; do sleep 0.05; done"

    def open(self) -> None:
        self._file.unlink(missing_ok=True)


@contextmanager
def gate() -> Iterator[Gate]:
    """A closed gate; it opens at the latest when the block ends."""
    # Not in /tmp, because each container has its own.
    number, name = tempfile.mkstemp(dir="/var/tmp")
    os.close(number)
    made = Gate(Path(name))
    try:
        yield made
    finally:
        made.open()
