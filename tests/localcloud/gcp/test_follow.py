"""Followers of a job's log on localcloud's Logging, on a clock of their own: none uses up the project's reads.

What this cannot prove: how late Cloud Logging shows an entry after it has received it.
"""

import functools
import io
import random
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
import requests
from google.oauth2.credentials import Credentials
from requests.adapters import BaseAdapter

from localcloud.gcp.wire import Request, RestError
from tests.localcloud.gcp.running import BASE, OWNER, RunningGcp
from tests.localcloud.gcp.virtual_time import VirtualTime
from tests.unit.google_fakes import gcp_descriptor
from tidemill.client.results import log_lines
from tidemill.clouds.account import LogSearch, ignore
from tidemill.clouds.gcp import logs, session
from tidemill.clouds.gcp.account import GcpAccount
from tidemill.clouds.gcp.session import BusyError, GoogleSession

BUCKET = f"{BASE}/locations/us-central1/buckets/lines"
JOB = "tiles-0a1b2c3d"
LINES = 4_000
"""`make bench ONLY=logs` has 10,000."""


class World(BaseAdapter):
    """localcloud's Logging behind HTTP without a socket, and a process for each follower."""

    def __init__(self, folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.daemon = RunningGcp(folder)
        self.start = time.time()
        self.time = VirtualTime(self.start)
        self.site = self.daemon.site
        monkeypatch.setattr(self.site.clock, "now", self.time.time)
        own = threading.local()
        own_reads = functools.partial(logs.ReadLimit, logs.READS_A_MINUTE)

        class EachItsOwn:
            def wait(self) -> None:
                own.reads = getattr(own, "reads", None) or own_reads()
                own.reads.wait()

        monkeypatch.setattr(logs, "READS", EachItsOwn())
        for module in (logs, log_lines, session):
            monkeypatch.setattr(module, "time", _Time(self.time))
        monkeypatch.setattr(session, "_pooled", self._mounted)
        place = f"v2/{BASE}/locations/us-central1/buckets?bucketId=lines"
        self.daemon.call("logging", "POST", place, {"retentionDays": 14})
        sink = {"name": "lines", "destination": f"logging.googleapis.com/{BUCKET}", "filter": "jsonPayload.job:*"}
        self.daemon.call("logging", "POST", f"v2/{BASE}/sinks", sink)
        self.reads: dict[int, list[float]] = defaultdict(list)
        self.refused = 0

    def _mounted(self, made: requests.Session) -> requests.Session:
        made.mount("https://", self)
        return made

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        assert isinstance(request.body, bytes)
        self.reads[threading.get_ident()].append(self.time.now)
        try:
            answer = self.site.serve(Request("logging", "POST", "v2/entries:list", {}, {}, request.body, OWNER))
        except RestError as error:
            self.refused += error.code == 429
            answer = error.response()
        made = requests.Response()
        made.status_code, made.raw = answer.status, io.BytesIO(answer.body)
        return made

    def close(self) -> None:
        self.daemon.stop()

    def account(self) -> GcpAccount:
        credentials = Credentials("token", quota_project_id="localcloud-project")
        session = GoogleSession("localcloud-project", credentials)
        return GcpAccount(gcp_descriptor(log_group=BUCKET), session)

    def write(self, numbers: range, ages: random.Random | None = None) -> None:
        """Lines of one request; with `ages`, they waited on their machine for up to a minute."""
        entries = []
        for number in numbers:
            at = self.time.now - (ages.uniform(0, 60) if ages else 0)
            stamp = datetime.fromtimestamp(at, UTC).isoformat()
            line = {"job": JOB, "item": number % 7, "stream": "stdout", "message": f"line {number}"}
            entries.append({"jsonPayload": line, "timestamp": stamp, "insertId": f"w-{number:09d}"})
        resource = {"type": "generic_node", "labels": {}}
        body = {"logName": f"{BASE}/logs/lines", "resource": resource, "entries": entries}
        self.daemon.call("logging", "POST", "v2/entries:write", body)

    def follow(self, ended: Any, found: Counter[str], say: Any = ignore) -> None:
        account, search = self.account(), LogSearch(JOB, since=self.start - 60, say=say)
        found.update(line.said for line in log_lines.follow_lines(account, search, account.logs, ended))

    def most_per_minute(self) -> int:
        """Reads of the busiest minute of one follower."""
        return max(sum(at <= one < at + 60 for one in times) for times in self.reads.values() for at in times)


class _Time:
    def __init__(self, virtual: VirtualTime) -> None:
        self.sleep, self.monotonic, self.time = virtual.sleep, virtual.time, virtual.time


@pytest.fixture
def world(tmp_path, monkeypatch):
    made = World(tmp_path, monkeypatch)
    yield made
    made.close()


def followed_by_three(world: World, lines: int) -> list[Counter[str]]:
    """What each of three followers of a busy job has seen. Lines come out of order and late: each has waited on its
    machine."""
    over, found = threading.Event(), [Counter[str]() for _ in range(3)]

    def machines() -> None:
        ages = random.Random(53)
        for start in range(0, lines, 250):
            world.write(range(start, start + 250), ages)
            world.time.sleep(3.0)
        over.set()

    world.time.run([machines, *(functools.partial(world.follow, over.is_set, one) for one in found)])
    return found


def test_three_followers_of_a_busy_job_see_each_line_once(world):
    found = followed_by_three(world, LINES)
    assert all(one == {f"line {number}": 1 for number in range(LINES)} for one in found)
    assert (world.refused, len(world.reads)) == (0, 3)
    assert world.most_per_minute() <= logs.READS_A_MINUTE
    # A read takes no time here: lines are shown at the latest one pause after the job's end.
    assert world.time.now < world.start + 120


def test_a_follower_of_a_quiet_job_reads_six_times_per_minute(world):
    found: Counter[str] = Counter()
    world.write(range(3))
    world.time.run([lambda: world.follow(lambda: world.time.now > world.start + 600, found)])
    assert sum(found.values()) == 3
    assert world.most_per_minute() <= 6


def test_a_follower_waits_and_says_so_when_others_use_up_the_reads(world):
    over, found, said = threading.Event(), Counter[str](), list[str]()

    def others() -> None:
        body = b'{"resourceNames": ["projects/localcloud-project"]}'
        for _ in range(100):
            with suppress(RestError):
                while world.site.serve(Request("logging", "POST", "v2/entries:list", {}, {}, body, OWNER)):
                    pass
            world.time.sleep(0.5)
        over.set()

    world.write(range(5))
    world.time.run([others, lambda: world.follow(over.is_set, found, said.append)])
    assert sum(found.values()) == 5
    assert "60 log reads per minute; reading again in 10 s" in said[0]


def test_a_reader_gives_up_when_the_reads_stay_used_up(world, monkeypatch):
    monkeypatch.setattr("localcloud.gcp.logs.READS_A_MINUTE", 0)
    with pytest.raises(BusyError) as refused:
        world.time.run([lambda: world.follow(lambda: True, Counter())])
    assert refused.value.exit_code == 3
    assert len(next(iter(world.reads.values()))) == 1 + len(logs.BUSY_PAUSES)
