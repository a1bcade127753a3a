"""Calls per second that a cloud takes before it throttles."""

from __future__ import annotations

import threading


class TokenBucket:
    """Calls of a second or, if `seconds` is more, of that time; all of them may come at once."""

    def __init__(self, most: float, now: float, seconds: float = 1.0) -> None:
        self._tokens, self._filled, self._seconds = float(most), now, seconds
        self._lock = threading.Lock()

    def take(self, most: float, now: float) -> bool:
        """Take a token of at most so many. Returns whether there was one."""
        with self._lock:
            self._tokens = min(most, self._tokens + (now - self._filled) * most / self._seconds)
            self._filled = now
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True
