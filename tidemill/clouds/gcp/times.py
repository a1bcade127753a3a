"""Times as Google's APIs write them."""

from __future__ import annotations

from datetime import UTC, datetime


def stamp(at: float) -> str:
    """Seconds since the epoch as RFC 3339, in whole microseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def seconds(text: str) -> float:
    """RFC 3339 (nanoseconds too) as seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()
