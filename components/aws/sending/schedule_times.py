"""Times of schedules as EventBridge Scheduler writes them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim

_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_BEGIN, _YEARS = datetime(2025, 1, 1), 10
"""The days that are looked at for a change of clocks. They are fixed, so that a plan does not depend on its day."""


def six_fields(cron: str, timezone: str) -> str:
    """A cron expression of EventBridge Scheduler from one of five fields.

    All values are written out, as EventBridge knows fewer ranges and steps, and counts days of the week from 1. A time
    that clocks skip does not fire there, while cron runs it after the change; so there is a firing an hour later too.
    On other days the sender finds nothing to do then.
    Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html
    """
    times = CronSim(cron, _BEGIN)
    hours = times.hours | {(hour + 1) % 24 for hour in _skipped(times, ZoneInfo(timezone))}
    minute, hour = _field(times.minutes, 60), _field(hours, 24)
    day, month = _field(times.days, 31), _field(times.months, 12)
    weekdays = sorted({day % 7 for day in times.weekdays if isinstance(day, int)})
    if len(weekdays) == len(_DAYS):
        return f"cron({minute} {hour} {day} {month} ? *)"
    return f"cron({minute} {hour} ? {month} {','.join(_DAYS[day] for day in weekdays)} *)"


def _field(values: Collection[int], most: int) -> str:
    return "*" if len(values) == most else ",".join(map(str, sorted(values)))


def _skipped(times: CronSim, zone: ZoneInfo) -> Iterator[int]:
    """The hours of some times that the clocks of a zone skip on a day."""
    if len(times.hours) == 24:
        return
    walls = [(hour, minute) for hour in times.hours for minute in times.minutes]
    days = [_BEGIN + timedelta(number) for number in range(366 * _YEARS)]
    for day in (day for day, after in pairwise(days) if _changes(day, after, zone)):
        for hour, minute in walls:
            wall = day.replace(hour=hour, minute=minute, tzinfo=zone)
            if wall.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall.replace(tzinfo=None):
                yield hour


def _changes(day: datetime, after: datetime, zone: ZoneInfo) -> bool:
    return day.replace(tzinfo=zone).utcoffset() != after.replace(tzinfo=zone).utcoffset()
