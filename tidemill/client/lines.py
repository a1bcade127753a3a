"""Log lines of a job: which ones are wanted, and following them as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tidemill.backends import LogLine

POLL_SECONDS = 2.0
LATE_SECONDS = 60.0
"""How far back each look goes: lines of different machines do not arrive in the order of their times."""
QUIET_LOOKS = 3
"""Looks without a new line, after the job has ended, after which no more are expected."""


@dataclass(frozen=True)
class Wanted:
    """Which lines of a job are wanted. See `Job.logs`."""

    item: int | None = None
    worker: bool = False
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None

    @property
    def since_seconds(self) -> float:
        """Seconds since the epoch; 0 when nothing was said."""
        return self.since.timestamp() if self.since else 0.0

    @property
    def until_seconds(self) -> float | None:
        """Seconds since the epoch; None when nothing was said."""
        return self.until.timestamp() if self.until else None

    def has(self, line: LogLine) -> bool:
        """Whether a line is one of them."""
        until = self.until_seconds
        return (
            (self.worker or "stream" in line.fields)
            and self._of_the_item(line)
            and self.since_seconds <= line.at
            and (until is None or line.at <= until)
            and (self.text is None or self.text in line.said)
        )

    def _of_the_item(self, line: LogLine) -> bool:
        if self.item is None:
            return True
        return line.fields["item"] == self.item if "item" in line.fields else "stream" not in line.fields


def follow_lines(
    wanted: Wanted, read: Callable[[Wanted], Iterator[LogLine]], has_ended: Callable[[], bool]
) -> Iterator[LogLine]:
    """Lines that are there, then new ones as they come, until the job has ended and no more come.

    Each line is yielded once, although looks overlap.

    Args:
        wanted: Which lines.
        read: Yields the lines that are there now.
        has_ended: Whether the job has ended.
    """
    wanted = replace(wanted, until=None)
    seen: dict[tuple[object, ...], float] = {}
    quiet = 0
    while quiet < QUIET_LOOKS:
        new = False
        for line in read(wanted):
            if (key := _identity(line)) not in seen:
                seen[key], new = line.at, True
                yield line
        if seen:
            start = max(max(seen.values()) - LATE_SECONDS, wanted.since_seconds)
            wanted = replace(wanted, since=datetime.fromtimestamp(start, UTC))
            seen = {key: at for key, at in seen.items() if at >= start}
        # Asking for the status costs a few requests, so it is done in a pause of the lines only.
        quiet = quiet + 1 if not new and has_ended() else 0
        if quiet < QUIET_LOOKS:
            time.sleep(POLL_SECONDS)


def _identity(line: LogLine) -> tuple[object, ...]:
    return (line.id,) if line.id else (line.at, line.stream, line.message)
