"""Times of EventBridge Scheduler: rates, and cron expressions of six fields in a time zone.

Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_EPOCH = datetime.fromtimestamp(0, UTC)
_CRON = re.compile(r"cron\((\S+) (\S+) (\S+) (\S+) (\S+) \*\)")


class Expression:
    """A schedule's expression; years other than `*` and the letters L, W and # are not supported.

    Raises:
        ValueError: The expression or the time zone is not valid.
    """

    def __init__(self, text: str, zone: str) -> None:
        self._rate: timedelta | None = None
        self._cron = ""
        try:
            self._zone = ZoneInfo(zone)
            if rate := _RATE.fullmatch(text):
                self._rate = timedelta(**{f"{rate[2]}s": int(rate[1])})
                return
            minute, hour, day, month, weekday = _fields(text)
            # Sunday is 1 here and 0 in cron.
            weekday = re.sub(r"(?<!/)\b\d\b", lambda found: str(int(found[0]) - 1), weekday)
            self._cron = f"{minute} {hour} {day} {month} {weekday}".replace("?", "*")
            CronSim(self._cron, datetime(2026, 1, 1))
        except (CronSimError, KeyError, ValueError, OSError):
            raise ValueError(f"Invalid Schedule Expression {text} in {zone}.") from None

    def between(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """The times after one and not after another, in order. A time that clocks skip is left out, and one that they
        show twice is taken once."""
        if self._rate:
            first, last = ((each - _EPOCH) // self._rate for each in (after, until))
            yield from (_EPOCH + self._rate * number for number in range(first + 1, last + 1))
        else:
            for wall in CronSim(self._cron, (after.astimezone(self._zone)).replace(tzinfo=None)):
                at = wall.replace(tzinfo=self._zone).astimezone(UTC)
                if at > until:
                    return
                if at > after and at.astimezone(self._zone).replace(tzinfo=None) == wall:
                    yield at


def _fields(text: str) -> list[str]:
    found = _CRON.fullmatch(text)
    if found is None:
        raise ValueError(text)
    fields = list(found.groups())
    if (fields[2] == "?") == (fields[4] == "?") or re.search(r"[LW#]", fields[2] + re.sub("[A-Z]{3}", "", fields[4])):
        raise ValueError(text)
    return fields
