"""How far a transfer is, for the progress bars."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext


class Meter:
    """Counts of a transfer, moved by its threads.

    Attributes:
        files: Done so far.
        bytes: Done so far.
        all_files: What it began with; less may turn out to be needed.
        all_bytes: See `all_files`.
        changed: Called after every step, by the thread that made it.
    """

    def __init__(self, files: int, size: int) -> None:
        self.all_files, self.all_bytes = files, size
        self.files = self.bytes = 0
        self.changed: Callable[[], None] = lambda: None
        self._lock = threading.Lock()

    def add(self, files: int, size: int) -> None:
        """So many more files and bytes are done; less than none when a part begins again."""
        with self._lock:
            self.files += files
            self.bytes += size
        self.changed()


Watch = Callable[[Meter], AbstractContextManager[object]]
"""Shows a transfer from its beginning to its end."""


def unwatched(meter: Meter) -> AbstractContextManager[object]:
    """Shows nothing."""
    return nullcontext(meter)
