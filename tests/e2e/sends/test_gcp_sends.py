"""A template that the sender of a stack on GCP sends at a time of a schedule.

The sender is the worker's image as a process, with the login of its own account, and the clock of Cloud Scheduler is
turned. How long Cloud Run takes to start it is not shown here, nor that files which arrive become a job: only tests in
memory and the stack's life on the engine show that on GCP.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from localcloud.cloud import GcpCloud
from tests.e2e.gcp import DATA, TIME_FACTOR, GcpTeam, gcp_team_up
from tests.worker_image import cached
from worker_image import image

pytestmark = pytest.mark.namespaces

COPY = ("sh", "-c", 'cp "$1" "$2/copy"', "sh", "{input}", "{output}")
SCHEDULES = {"nightly": {"template": "nightly", "cron": "0 2 * * *", "timezone": "Europe/Berlin"}}
ARRIVALS = {"tiles": {"template": "tiles", "prefix": f"gs://{DATA}/new/", "settle_minutes": 1}}


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcpTeam]:
    """A team with a schedule and arrivals. Its machines get the worker from the image that the sender is in."""
    with GcpCloud(tmp_path_factory.mktemp("localcloud"), time_factor=TIME_FACTOR) as cloud:
        cloud.control("scheduler/pause", paused=True)
        repository = f"{cloud.control('compute/registry')['address']}/{cloud.project}/demo-local"
        pushed = image.push(cached.build().tree.parent, f"{repository}/tidemill-worker", insecure=True)
        settings = {
            "tidemill:worker_image": pushed.replace(repository, "registry:/"),
            "tidemill:schedules": SCHEDULES,
            "tidemill:arrivals": ARRIVALS,
        }
        yield gcp_team_up(cloud, tmp_path_factory.mktemp("demo-gcp"), settings=settings)


def called(team: GcpTeam, what: str) -> str:
    """The name of the sender's scheduler job with this suffix."""
    jobs = team.google.call("cloudscheduler", "GET", "v1/projects/{project}/locations/us-central1/jobs")["jobs"]
    (name,) = [short for job in jobs if f"-sender-{what}-" in (short := job["name"].rpartition("/")[2])]
    return name


def jobs_of(team: GcpTeam, template: str) -> list[dict[str, Any]]:
    found = json.loads(team.tidemill("jobs", "--json"))["jobs"]
    return [job for job in found if job["job"].startswith(f"{template}-")]


def test_a_schedule_sends_a_job_once_and_a_machine_runs_it(team: GcpTeam) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    due = tomorrow.replace(hour=12, minute=0)
    # The sender believes its own clock, by which yesterday's or today's time is the newest.
    for ago, index in product((1, 2), range(3)):
        team.objects.put(DATA, f"{due - timedelta(days=ago):%Y/%m/%d}/{index}", f"item {index}".encode())
    items = f"gs://{DATA}/{{time:%Y/%m/%d}}/**"
    team.tidemill("template", "save", "nightly", "--queue", "cpu", "--items", items, "--", *COPY)
    at_night = called(team, "at-nightly")
    assert team.cloud.control("scheduler/turn", to=due.timestamp(), job=at_night)
    [job] = jobs_of(team, "nightly")
    team.tidemill("wait", job["job"])
    outcomes = team.results(job["job"])
    assert sorted(team.read(f"{each['output']}copy") for each in outcomes) == [b"item 0", b"item 1", b"item 2"]
    assert team.cloud.control("scheduler/turn", to=due.timestamp(), job=at_night) == [], "it has been called"
    assert [each["job"] for each in jobs_of(team, "nightly")] == [job["job"]]
