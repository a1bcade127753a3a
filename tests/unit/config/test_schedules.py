"""Schedules and arrivals that a stack may have, and when they send next. Wrong ones are in bad_stack_configs.yaml."""

import datetime
from itertools import islice
from typing import Any

import pytest

from components.config import ConfigError, Schedule, parse
from components.sending import calls, next_times, notes
from tests.unit.config.examples import GOOD

WORKER = f"registry://tidemill-worker@sha256:{64 * '0'}"


def stack(**keys: Any) -> dict[str, Any]:
    return GOOD | {"worker_image": WORKER} | keys


@pytest.mark.parametrize(
    "cron",
    ["0 2 * * *", "*/5 * * * *", "0,30 8-18/2 * JAN-MAR mon,WED-fri", "15 3 31 * *", "0 0 29 2 *", "0 12 * * 7"],
)
def test_five_fields_that_every_scheduler_knows(cron: str) -> None:
    parse(stack(schedules={"nightly": {"template": "tiles", "cron": cron, "timezone": "America/Argentina/Ushuaia"}}))


@pytest.mark.parametrize("read", ["s3://incoming", "s3://incoming/", "s3://incoming/ti", "s3://incoming/tiles/"])
def test_arrivals_within_what_jobs_may_read(read: str) -> None:
    arrivals = {
        name: {"template": "tiles", "prefix": f"s3://incoming/tiles/{name}/"} for name in ("raw", "raw-2", "old")
    }
    written = ["s3://incoming-tiles", "s3://incoming/til", "s3://incoming/tiles/rawer/"]
    data = {"read": [read], "write": [uri for uri in written if uri != "s3://incoming/til"]}
    parse(stack(data=data, arrivals=arrivals))
    with pytest.raises(ConfigError, match="without end"):
        parse(stack(data=data | {"write": written}, arrivals=arrivals))


@pytest.mark.parametrize(
    ("cron", "zone", "now", "wanted"),
    [
        # 02:30 is skipped, and 02:30 is twice.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", ["2026-03-29T01:00", "2026-03-30T00:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", ["2026-10-25T00:30", "2026-10-26T01:30"]),
        ("0 0 29 2 *", "UTC", "2026-11-26T00:00", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        # Kiritimati is 14 hours ahead, Niue 11 behind: their Sundays have no hour in common.
        ("0 12 * * 0", "Pacific/Kiritimati", "2026-11-26T00:00", ["2026-11-28T22:00", "2026-12-05T22:00"]),
        ("0 12 * * SUN", "Pacific/Niue", "2026-11-26T00:00", ["2026-11-29T23:00", "2026-12-06T23:00"]),
    ],
    ids=["spring", "autumn", "leap", "east", "west"],
)
def test_the_next_times_are_those_of_the_zone(cron: str, zone: str, now: str, wanted: list[str]) -> None:
    schedule = Schedule(template="tiles", cron=cron, timezone=zone)
    times = islice(next_times(schedule, datetime.datetime.fromisoformat(f"{now}Z")), 2)
    assert [f"{time.astimezone(datetime.UTC):%Y-%m-%dT%H:%M}" for time in times] == wanted


@pytest.mark.parametrize(
    ("cron", "a_year"),
    [("0 2 * * *", 365), ("*/5 * * * *", 105_120), ("0 0,12 * * 1-5", 2 * 261), ("0 0 31 1,3 *", 2), ("0 0 29 2 *", 0)],
)
def test_an_estimate_counts_the_times_of_a_year(cron: str, a_year: int) -> None:
    config = parse(stack(schedules={"nightly": {"template": "tiles", "cron": cron}}))
    assert calls(config).count == pytest.approx(a_year / 12)


def test_a_preview_says_when_and_what() -> None:
    keys = {
        "schedules": {"nightly": {"template": "tiles", "cron": "30 2 * * *", "timezone": "Europe/Berlin"}},
        "arrivals": {"new": {"template": "tiles", "prefix": "s3://incoming/", "queues": ["cpu"]}},
        "data": {"read": ["s3://incoming"]},
    }
    scheduled, arriving = notes(parse(stack(**keys)), datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.UTC))
    assert "Fri 2026-11-27 02:30, Sat 2026-11-28 02:30, Sun 2026-11-29 02:30 (Europe/Berlin)" in scheduled
    assert "the template tiles to the queues cpu for files in s3://incoming/, after 5 minutes" in arriving
    assert list(notes(parse(GOOD), datetime.datetime.now(datetime.UTC))) == []
