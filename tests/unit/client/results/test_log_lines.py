"""Which log lines are shown, and following them. What this cannot prove: how late CloudWatch shows a line."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.client_fakes import pipeline, uris
from tidemill.cli.commands import logs as verb
from tidemill.cli.kinds import Moment
from tidemill.client.rounds import deliveries
from tidemill.clouds.account import LogLine

NINE = datetime(2026, 11, 21, 9, tzinfo=UTC)
LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
"""After the job of these tests is made."""


@pytest.fixture
def sent(monkeypatch):
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    target, backend = pipeline()
    job = target.submit(["x", "{input}"], uris(4), queue="cpu", name="tiles", chunk_size=2)
    return target, backend, job


def line(job, minute, message, item=0, identity=""):
    fields = {"job": job.id, "item": item, "attempt": 1, "stream": "stdout", "message": message}
    return LogLine((LATER + timedelta(minutes=minute)).timestamp(), json.dumps(fields), "s", fields, identity)


def test_what_pip_says_belongs_to_no_item(sent):
    _, backend, job = sent
    fields = {"job": job.id, "chunk": 0, "stream": "stderr", "message": "WARNING: pip"}
    backend.lines = [line(job, 0, "one"), LogLine(LATER.timestamp(), json.dumps(fields), "s", fields)]
    assert [verb.plain(found) for found in job.logs()] == ["0.1 stdout: one", "setup stderr: WARNING: pip"]
    backend.arrays.clear()
    assert [found.said for found in job.logs(item=0)] == ["one"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["one", "two bands", "three bands"]),
        ({"text": "bands"}, ["two bands", "three bands"]),
        ({"text": "Bands"}, []),
        ({"text": "item"}, []),
        ({"since": LATER + timedelta(minutes=1)}, ["two bands", "three bands"]),
        ({"until": LATER + timedelta(minutes=1)}, ["one", "two bands"]),
        ({"since": LATER + timedelta(minutes=1), "until": LATER + timedelta(minutes=1), "text": "b"}, ["two bands"]),
    ],
)
def test_lines_are_chosen_by_text_and_time(sent, wanted, found):
    _, backend, job = sent
    backend.lines = [line(job, 0, "one"), line(job, 1, "two bands"), line(job, 2, "three bands")]
    assert [one.said for one in job.logs(**wanted)] == found


def test_following_yields_each_line_once_until_the_job_has_ended(sent, patch_time):
    target, backend, job = sent
    backend.lines = [line(job, 0, "one", identity="a")]
    looks = []

    def pause(seconds):
        looks.append(seconds)
        if len(looks) == 1:
            # An equal line of another event, and one that arrives late.
            backend.lines += [line(job, 0, "one", identity="b"), line(job, -0.5, "late", identity="c")]
        if len(looks) == 3:
            backend.run(target, job.id)
            backend.lines.append(line(job, 3, "two", identity="d"))

    patch_time(sleep=pause)
    assert [one.said for one in job.logs(follow=True)] == ["one", "one", "late", "two"]
    assert looks == [backend.log_poll_seconds] * (3 + 3)


def test_following_begins_where_it_is_told(sent, patch_time):
    target, backend, job = sent
    backend.run(target, job.id)
    backend.lines = [line(job, 0, "one"), line(job, 5, "two")]
    patch_time(sleep=lambda seconds: None)
    assert [one.said for one in job.logs(follow=True, since=LATER + timedelta(minutes=4.5))] == ["two"]


@pytest.mark.parametrize(
    ("typed", "ago"),
    [("90s", 90), ("10m", 600), ("2h", 7200), ("3d", 259_200), ("1.5h", 5400)],
)
def test_a_time_ago(typed, ago):
    moment = Moment().convert(typed, None, None)
    assert abs((datetime.now(UTC) - moment).total_seconds() - ago) < 5


@pytest.mark.parametrize(
    ("typed", "moment"),
    [
        ("2026-11-21T09:00Z", NINE),
        ("2026-11-21T10:00+01:00", NINE),
        ("2026-11-21 09:00:00Z", NINE),
        ("2026-11-21T09:00", datetime(2026, 11, 21, 9).astimezone()),
    ],
)
def test_a_time_of_the_clock(typed, moment):
    assert Moment().convert(typed, None, None) == moment


@pytest.mark.parametrize("typed", ["yesterday", "10", "m", "-3m", "99999999999d", "2026-13-01"])
def test_what_is_no_time_is_told(typed):
    with pytest.raises(Exception, match="10m"):
        Moment().convert(typed, None, None)


def test_a_line_can_show_its_time(sent):
    _, _, job = sent
    one = line(job, 0, "one")
    assert verb.plain(one) == "0.1 stdout: one"
    at = LATER.astimezone().replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
    assert verb.plain(one, times=True) == f"{at} 0.1 stdout: one"
