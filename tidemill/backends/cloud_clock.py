"""The cloud's clock, as its answers tell it: laptops' clocks are wrong."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

_ROUNDED_SECONDS = 1.5
"""The header has whole seconds, rounded down."""


class CloudClock:
    """How far this machine's clock is from the one of the last answer."""

    def __init__(self) -> None:
        self._offset = 0.0
        self.known = False
        """Whether an answer has told it."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time() + self._offset

    def heard(self, date: str | None) -> None:
        """An answer has come, with this `Date` header."""
        try:
            stamp = parsedate_to_datetime(date).timestamp() if date else None
        except ValueError:
            return
        if stamp is not None:
            self.known, offset = True, stamp - time.time()
            self._offset = offset if abs(offset) > _ROUNDED_SECONDS else 0.0
