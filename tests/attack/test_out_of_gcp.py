"""Hostile items on GCP: none gets further than its machine's account, and each is told the reason that is written here.

They run as root in the container of a machine of localcloud, with its metadata, mounts and account. What this cannot
prove: what Container-Optimized OS and Docker refuse on top of it, and what Google decides where localcloud's evaluator
follows its documents. A container has the account of its machine there (docs/clouds.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.cloud import GcpCloud
from tests.attack.hostile_job import OTHERS, HostileJob
from tests.attack.programs.reasons import GCP
from tests.e2e.gcp import DATA, SPOT_OFF_SECONDS, TIME_FACTOR, GcpTeam, gcp_team_up

pytestmark = pytest.mark.namespaces


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcpTeam]:
    """A team whose pipeline is up, with another team's store and secret in the project."""
    state = tmp_path_factory.mktemp("localcloud")
    with GcpCloud(state, time_factor=TIME_FACTOR, spot_off_seconds=SPOT_OFF_SECONDS) as cloud:
        made = gcp_team_up(cloud, tmp_path_factory.mktemp("demo-gcp"))
        made.google.make_bucket(OTHERS)
        made.objects.put(OTHERS, "jobs/a/job.json", b"theirs")
        secret = {"replication": {"automatic": {}}}
        made.google.call("secretmanager", "POST", "v1/projects/{project}/secrets?secretId=theirs", secret)
        version = {"payload": {"data": "czNjcmV0"}}
        made.google.call("secretmanager", "POST", "v1/projects/{project}/secrets/theirs:addVersion", version)
        yield made


@pytest.fixture(scope="module")
def job(team: GcpTeam, tmp_path_factory: pytest.TempPathFactory) -> HostileJob:
    described = team.project.descriptor()
    queue = described["queues"]["cpu"]["gcp"]
    group = next(iter(team.machines()["targets"]))
    facts = {
        "project": team.google.project,
        "region": described["region"],
        "zone": f"{described['region']}-a",
        "bucket": described["store"].removeprefix("gs://"),
        "others": OTHERS,
        "data": DATA,
        "topic": queue["topic"],
        "group": group.rpartition("/")[2],
        "reconciler": f"demo-local-reconciler@{team.google.project}.iam.gserviceaccount.com",
        "repository": "demo-local",
    }
    return HostileJob(team, "out_of_gcp.py", GCP, facts, tmp_path_factory.mktemp("items"))


@pytest.mark.parametrize("way", GCP)
def test_no_way_leads_out(job: HostileJob, way: str) -> None:
    job.check_way(way)


def test_a_fetch_writes_into_its_folder_alone(job: HostileJob, tmp_path: Path) -> None:
    job.check_fetch(tmp_path)
