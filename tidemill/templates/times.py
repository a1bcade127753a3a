"""The times at which a schedule is due, by its cron text of five fields and its time zone.

A clock that is put forward skips an hour: a time in it is due when the hour is over. One that is put back doubles an
hour: a time in it is due once, but an hourly one twice. Debian's cron does the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim

_DAY = timedelta(days=1)


def due_before(cron: str, zone: str, until: datetime) -> Iterator[datetime]:
    """Times that a schedule was due, the newest first, until a time and with it. Without end, as far as dates go."""
    # A fixed time is looked for without its zone: near a change of clocks the first ones may be later than `until`.
    times = CronSim(cron, until.astimezone(ZoneInfo(zone)) + _DAY, reverse=True)
    return _each_once(time for time in times if time.astimezone(UTC) <= until)


def due_after(cron: str, zone: str, since: datetime) -> Iterator[datetime]:
    """Times that a schedule is due, the next first, from a time on and with it."""
    times = CronSim(cron, since.astimezone(ZoneInfo(zone)) - _DAY)
    return _each_once(time for time in times if time.astimezone(UTC) >= since)


def _each_once(times: Iterable[datetime]) -> Iterator[datetime]:
    """Times in order, without those that come twice. In UTC: in their own zone, those of a doubled hour are equal."""
    last = None
    for time in times:
        if (instant := time.astimezone(UTC)) != last:
            yield time
        last = instant


def on_day(cron: str, zone: str, day: datetime) -> list[datetime]:
    """The times of a calendar day, whatever its hours are."""
    times = list[datetime]()
    for time in due_after(cron, zone, day.replace(tzinfo=ZoneInfo(zone))):
        if time.date() != day.date():
            break
        times.append(time)
    return times
