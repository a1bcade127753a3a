"""The one flag that ends a worker's work before its time, and why it was raised."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import Enum

LOOK_SECONDS = 0.1


class StopReason(Enum):
    """Why a worker stops."""

    NOTICE = "notice"
    """The machine is being taken back: it said so itself."""
    SIGNAL = "signal"
    """SIGTERM: somebody ends this container."""
    CANCELLED = "cancelled"
    """The job's tombstone is there."""
    BROKEN = "broken"
    """The worker cannot go on: its store does not answer."""


class Stop:
    """Raised once, by whoever is first; seen by every thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.reason: StopReason | None = None
        self.at = 0.0
        """`time.monotonic` when it was raised."""
        self.wake: Callable[[], None] = lambda: None
        """Called when it is raised."""

    def __call__(self, why: StopReason) -> None:
        """Raise it."""
        if not self._event.is_set():
            self.reason, self.at = why, time.monotonic()
            self._event.set()
            self.wake()

    def __bool__(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep, but not longer than until it is raised; says whether it is."""
        return self._event.wait(max(0.0, seconds))


class JobStop(Stop):
    """Ends the items of one job; the worker's own flag ends them too.

    Args:
        worker: The worker's flag.
    """

    def __init__(self, worker: Stop) -> None:
        super().__init__()
        self._worker = worker

    @property
    def raised(self) -> bool:
        """Whether this job alone is to end."""
        return self._event.is_set()

    def __bool__(self) -> bool:
        return self._event.is_set() or bool(self._worker)

    def wait(self, seconds: float) -> bool:
        """Sleep, but not longer than until one of the two is raised; says whether one is."""
        end = time.monotonic() + seconds
        while not self and (left := end - time.monotonic()) > 0:
            self._event.wait(min(left, LOOK_SECONDS))
        return bool(self)
