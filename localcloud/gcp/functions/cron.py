"""Cron expressions of five fields on the wall clock of a time zone.

In the hour that a change to winter time repeats, a time is due twice; in the one that summer time skips, it is not due.
Source: https://cloud.google.com/scheduler/docs/configuring/cron-job-schedules
"""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


class Cron:
    """A schedule; names of months and days are not supported.

    Raises:
        ValueError: The expression is not a schedule, or the time zone is unknown.
    """

    def __init__(self, text: str, zone: str = "") -> None:
        try:
            self._zone = ZoneInfo(zone or "Etc/UTC")
        except ZoneInfoNotFoundError:
            raise ValueError(f"{zone!r} is not a time zone") from None
        parts = text.split()
        if len(parts) != len(RANGES):
            raise ValueError(f"{text!r} is not a schedule of five fields")
        self._fields = [_values(part, *bounds) for part, bounds in zip(parts, RANGES, strict=True)]
        self._days = {day % 7 for day in self._fields[4]}
        self._either = parts[2] != "*" and parts[4] != "*"

    def matches(self, minute: int) -> bool:
        """Whether it is due in a minute, counted since the epoch."""
        at = datetime.fromtimestamp(minute * 60, self._zone)
        of_month, of_week = at.day in self._fields[2], at.isoweekday() % 7 in self._days
        day = of_month or of_week if self._either else of_month and of_week
        return at.minute in self._fields[0] and at.hour in self._fields[1] and day and at.month in self._fields[3]


def _values(field: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for part in field.split(","):
        match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?)(?:/(\d+))?", part)
        if not match:
            raise ValueError(f"{part!r} is not part of a schedule")
        first, last, step = match.groups()
        begin = int(first) if first else low
        end = int(last) if last else high if not first or step else begin
        if not low <= begin <= end <= high or step == "0":
            raise ValueError(f"{part!r} is not between {low} and {high}")
        found.update(range(begin, end + 1, int(step or 1)))
    return found
