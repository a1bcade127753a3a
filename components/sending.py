"""When a stack sends templates: the next times, for a preview, and how often a month, for an estimate."""

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim

from .config import Arrival, Schedule, StackConfig

_SHOWN = 3
_TICKS = 730 * 60
"""Minutes of a month, as the clouds' pricing pages count it."""
SEND_SECONDS, TICK_SECONDS = 30, 0.5
"""Seconds that a sender is taken to need for a send, and for a look at an empty queue."""


@dataclass(frozen=True)
class Triggers:
    """A stack's schedules and arrivals, which the sender's calls follow from."""

    schedules: Mapping[str, Schedule]
    arrivals: Mapping[str, Arrival]

    @property
    def any(self) -> bool:
        return bool(self.schedules or self.arrivals)


@dataclass(frozen=True)
class Calls:
    """Calls of the sender in a month."""

    sends: float
    """At the times of schedules."""
    ticks: int
    """For a look at what has arrived."""

    @property
    def count(self) -> float:
        return self.sends + self.ticks

    @property
    def hours(self) -> float:
        """Hours that they take while no file arrives."""
        return (self.sends * SEND_SECONDS + self.ticks * TICK_SECONDS) / 3600


def calls(config: StackConfig | Triggers) -> Calls:
    """How often a stack's schedules and arrivals call the sender in a month."""
    return Calls(sum(map(_a_month, config.schedules.values())), _TICKS if config.arrivals else 0)


def _a_month(schedule: Schedule) -> float:
    """A schedule's times in a year that is no leap year, by month."""
    first = datetime.datetime(2026, 1, 1)
    times = CronSim(schedule.cron, first)
    days = (first.date() + datetime.timedelta(day) for day in range(365))
    wanted = sum(day.month in times.months and times.match_day(day) for day in days)
    return wanted * len(times.hours) * len(times.minutes) / 12


def notes(config: StackConfig, now: datetime.datetime) -> Iterator[str]:
    """A sentence for each schedule and each place where files arrive: which template is sent, and when."""
    for name, schedule in config.schedules.items():
        times = [f"{time:%a %Y-%m-%d %H:%M}" for time in islice(next_times(schedule, now), _SHOWN)]
        yield (
            f"Schedule {name} sends the template {schedule.template} to {_queues(schedule)}; next on "
            f"{', '.join(times)} ({schedule.timezone}). Overlap: {schedule.overlap}."
        )
    for name, arrival in config.arrivals.items():
        plural = "s" * (arrival.settle_minutes != 1)
        yield (
            f"Arrivals {name} send the template {arrival.template} to {_queues(arrival)} for files in "
            f"{arrival.prefix}, after {arrival.settle_minutes} minute{plural} without a new one, at most "
            f"{arrival.most_per_hour} times an hour."
        )


def next_times(schedule: Schedule, now: datetime.datetime) -> Iterator[datetime.datetime]:
    """The times of a schedule after a time, in its zone."""
    return CronSim(schedule.cron, now.astimezone(ZoneInfo(schedule.timezone)))


def _queues(sent: Schedule | Arrival) -> str:
    return f"the queues {', '.join(sent.queues)}" if sent.queues else "any queue"
