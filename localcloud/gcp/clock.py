"""The clock of localcloud's whole GCP: epoch seconds that pass as fast as a test wants.

Another process gets the same clock from ``origin`` and ``factor``.
"""

from __future__ import annotations

import threading
import time


class Clock:
    """Epoch seconds that start at ``origin`` and run ``factor`` times as fast as real ones."""

    def __init__(self, factor: float = 1.0, origin: float | None = None) -> None:
        if factor <= 0:
            raise ValueError(f"the time factor must be above 0, not {factor}")
        self.factor = factor
        self.origin = time.time() if origin is None else origin

    def now(self) -> float:
        """Epoch seconds on this clock."""
        return self.at(time.time())

    def at(self, real: float) -> float:
        """What this clock showed at a time of this machine's clock, which is that of programs on machines."""
        return self.origin + (real - self.origin) * self.factor

    def real(self, seconds: float) -> float:
        """The real seconds that these clock seconds take."""
        return max(seconds, 0.0) / self.factor

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for the event, at most that many seconds of this clock. Returns whether the event is set."""
        return event.wait(self.real(seconds))
