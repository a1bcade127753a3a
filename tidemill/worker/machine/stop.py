"""The flag that ends a worker's work before its time, and why it was raised."""

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
    """SIGTERM: this container is being ended."""
    CANCELLED = "cancelled"
    """The job's tombstone is there."""
    BROKEN = "broken"
    """The worker cannot continue: its store does not answer."""
    SUPERSEDED = "superseded"
    """A later attempt on the item has begun."""
    AGE = "age"
    """The machine reaches its greatest age."""


ASSUMED_SECONDS = {StopReason.NOTICE: 120.0}
"""How long a machine lives after it said that it goes, where it does not say how long."""
SIGNAL_SECONDS = 25.0
"""How long a container lives after SIGTERM: 30 s on AWS Batch, 25 s on machines on GCP (`docker stop --time`)."""


class Stop:
    """A flag that is raised once, by the first caller, and that every thread sees."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self.reason: StopReason | None = None
        self.at = 0.0
        """`time.monotonic` when it was raised."""
        self._left: float | None = None
        self._at_risk = False
        self._leaving = False

    @property
    def leaving(self) -> bool:
        """True if nothing more may start, because this machine is not fit for it. Running items may end."""
        return self._leaving

    def leave(self) -> None:
        """Have the worker leave once what runs has ended. The flag is not raised for that."""
        self._leaving = True

    @property
    def at_risk(self) -> bool:
        """True if a notice has become likely. The flag is not raised for that."""
        return self._at_risk

    def warn(self) -> None:
        """Say that a notice has become likely."""
        self._at_risk = True

    @property
    def ends_at(self) -> float:
        """`time.monotonic` when all of this is gone, as far as it is known, once the flag is raised."""
        assumed = ASSUMED_SECONDS.get(self.reason or StopReason.SIGNAL, SIGNAL_SECONDS)
        return self.at + (assumed if self._left is None else self._left)

    def set(self, reason: StopReason, left: float | None = None) -> None:
        """Raise the flag; the first reason stays. `left` is how many seconds there are until the end, if known."""
        if not self._event.is_set():
            self.reason, self.at, self._left = reason, time.monotonic(), left
            self._event.set()
            for callback in self._callbacks:
                callback()

    @property
    def raised(self) -> bool:
        return self._event.is_set()

    def on_raise(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def wait(self, seconds: float) -> bool:
        """Sleep until the flag is raised, at most this long; returns whether it is raised."""
        return self._event.wait(max(0.0, seconds))


class JobStop(Stop):
    """Ends the items of one job; the worker's own flag ends them too."""

    def __init__(self, worker: Stop) -> None:
        super().__init__()
        self._worker = worker

    @property
    def raised(self) -> bool:
        return self._event.is_set() or self._worker.raised

    @property
    def at_risk(self) -> bool:
        return self._worker.at_risk

    @property
    def leaving(self) -> bool:
        return self._worker.leaving

    @property
    def ends_at(self) -> float:
        return super().ends_at if self._event.is_set() else self._worker.ends_at

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep until one of the two flags is raised, at most this long; returns whether one is raised."""
        end = time.monotonic() + seconds
        while not self.raised and (left := end - time.monotonic()) > 0:
            self._event.wait(min(left, LOOK_SECONDS))
        return self.raised
