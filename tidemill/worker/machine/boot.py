"""The time at which this machine began to run: containers share it with their machine."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import cache


@cache
def booted_at() -> str | None:
    """ISO 8601; None where the system does not tell."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    if clock is None:
        return None
    return datetime.fromtimestamp(time.time() - time.clock_gettime(clock), UTC).isoformat(timespec="seconds")
