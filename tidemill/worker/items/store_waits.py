"""How long slots wait for the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class StoreWaits:
    """Seconds in which slots waited for the store. Any thread may add."""

    def __init__(self) -> None:
        self.fetch = self.upload = 0.0
        self._lock = threading.Lock()

    @contextmanager
    def fetching(self) -> Iterator[None]:
        """A block in which a slot waits for an input or a state."""
        start = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self.fetch += time.monotonic() - start

    @contextmanager
    def sending(self) -> Iterator[None]:
        """A block in which a slot waits for outputs or a state on their way up."""
        start = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self.upload += time.monotonic() - start
