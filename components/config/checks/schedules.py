"""Rules of schedules and arrivals: when they send, to which queues, and that no job sets itself off."""

import datetime
from collections.abc import Sequence
from itertools import combinations, pairwise
from zoneinfo import available_timezones

from cronsim import CronSim, CronSimError

from ..errors import ConfigError, key_path, nearest, shown
from ..later import is_plain, plain
from ..models import StackConfig
from ..schedule_models import Arrival, Schedule

MIN_MINUTES = 5
"""A sender that runs more often than its jobs start has nothing to do."""
_DAY = 24 * 60
_LEAP_YEAR = datetime.datetime(2024, 1, 1)


def check_schedules(config: StackConfig) -> None:
    """Schedules and arrivals need a sender, queues that exist, times that come, and files that only others write."""
    for key, sent in (("schedules", config.schedules), ("arrivals", config.arrivals)):
        if sent and config.worker_image is None:
            raise ConfigError(
                key_path([key]),
                ", ".join(sent),
                "only with tidemill:worker_image, which the sender is in",
                "`make worker PUSH=REGISTRY` pushes it and prints the reference",
            )
        for name, each in sent.items():
            _check_queues(config, [key, name], each)
    for name, schedule in config.schedules.items():
        _check_zone(["schedules", name, "timezone"], schedule.timezone)
        _check_cron(["schedules", name, "cron"], schedule.cron)
    for name, arrival in config.arrivals.items():
        _check_prefix(config, ["arrivals", name, "prefix"], arrival.prefix)
    for (one, first), (other, second) in combinations(config.arrivals.items(), 2):
        if overlap(first.prefix, second.prefix):
            raise ConfigError(
                key_path(["arrivals", other, "prefix"]),
                shown(second.prefix),
                f"a prefix apart from that of {one}, {first.prefix}: a file would be sent twice",
                "Give each its own prefix, or let one template do both",
            )


def overlap(one: str, other: str) -> bool:
    """True if an object's URI may begin with both of two buckets or prefixes."""
    first, second = map(_beginning, (one, other))
    return first.startswith(second) or second.startswith(first)


def _beginning(uri: str) -> str:
    """How the URIs of a bucket's or prefix's objects begin: a bucket ends where its name ends."""
    return uri if uri.count("/") > 2 else f"{uri}/"


def _check_queues(config: StackConfig, path: Sequence[str], sent: Schedule | Arrival) -> None:
    for index, queue in enumerate(sent.queues or []):
        if queue not in config.queues:
            guess = nearest(queue, config.queues)
            raise ConfigError(
                key_path([*path, "queues", index]),
                shown(queue),
                f"the stack's queues: {', '.join(config.queues)}",
                f"Did you mean {guess}?" if guess else "Name one of these, or add the queue",
            )


def _check_zone(path: Sequence[str], zone: str) -> None:
    known = available_timezones()
    if zone not in known:
        guess = nearest(zone, sorted(known))
        raise ConfigError(
            key_path(path),
            shown(zone),
            "UTC, or a time zone of the IANA database such as Europe/Berlin",
            f"Did you mean {guess}?" if guess else "Name the zone of a large city nearby",
        )


def _check_cron(path: Sequence[str], cron: str) -> None:
    """The clouds read both fields of days differently where both are set, so one of them must be `*`."""
    here, value = key_path(path), shown(cron)
    minute, hour, day, month, weekday = cron.split(" ")
    if day != "*" and weekday != "*":
        raise ConfigError(
            here,
            value,
            "* as the day of the month or as the day of the week",
            "Make a schedule of each: the clouds do not agree on what both together mean",
        )
    times = _times(cron)
    if times is None and _times(f"{minute} {hour} * {month} {weekday}") and _times(f"0 0 {day} * *"):
        raise ConfigError(here, value, "a day that some year has", "Correct the day or the month")
    if times is None:
        raise ConfigError(
            here,
            value,
            "minutes 0-59, hours 0-23, days 1-31, months 1-12 or JAN-DEC, days of the week 0-7 or SUN-SAT, and ranges "
            "that rise",
            "Correct the field that is outside",
        )
    minutes = sorted(60 * hour + minute for hour in times.hours for minute in times.minutes)
    if any(after - before < MIN_MINUTES for before, after in pairwise([*minutes, minutes[0] + _DAY])):
        raise ConfigError(
            here,
            value,
            f"times that are {MIN_MINUTES} minutes apart, or more",
            f"Take */{MIN_MINUTES} as the minute, or tidemill:arrivals for files as they come",
        )


def _times(cron: str) -> CronSim | None:
    """The times of five fields; None if they have none."""
    try:
        return CronSim(cron, _LEAP_YEAR)
    except CronSimError:
        return None


def _check_prefix(config: StackConfig, path: Sequence[str], prefix: str) -> None:
    """Jobs must be able to read what arrives, and unable to write there: their files would set them off again.

    Which template is sent is not known here; the sender compares its job's output with the prefix once more.
    """
    here, value = key_path(path), shown(prefix)
    store = config.imports.store
    written = [*plain(config.data.write), *([f"{prefix.partition('://')[0]}://{store}"] if store else [])]
    if loop := next((each for each in written if overlap(each, prefix)), None):
        raise ConfigError(
            here,
            value,
            f"a prefix that no job of the stack can write to; jobs write to {loop}, and their files would start jobs "
            "without end",
            "Let files arrive elsewhere, and list that prefix in tidemill:data.read alone",
        )
    read = config.data.read
    if all(is_plain(each) and not _beginning(prefix).startswith(_beginning(each)) for each in read):
        raise ConfigError(
            here,
            value,
            "what tidemill:data.read lists, or a prefix of it: the template's jobs read the files",
            f"Add {prefix} to tidemill:data.read",
        )
