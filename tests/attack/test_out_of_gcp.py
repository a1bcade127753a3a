"""Hostile items on GCP: none gets further than its machine's account, and each is told the reason that is written here.

They run as root in the container of a machine of localcloud, with its metadata, mounts and account. What this cannot
prove: what Container-Optimized OS and Docker refuse on top of it, and what Google decides where localcloud's evaluator
follows its documents. A container has the account of its machine there (docs/clouds.md).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.cloud import GcpCloud
from tests.attack.programs.reasons import GCP
from tests.e2e.gcp import DATA, SPOT_OFF_SECONDS, TIME_FACTOR, GcpTeam, gcp_team_up

pytestmark = pytest.mark.namespaces
PROGRAM = Path(__file__).parent / "programs" / "out_of_gcp.py"
OTHERS = "audio-dev-store-bucket-1a2b3c4"


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
def job(team: GcpTeam, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job whose items are the attacks, when it has ended."""
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
    items = tmp_path_factory.mktemp("items") / "items.txt"
    items.write_text("".join(f"{way}\n" for way in GCP))
    program = (sys.executable, str(PROGRAM), "{uri}", "{output}", json.dumps(facts))
    found = team.submit("hostile", items, *program, chunk_size=16)
    team.tidemill("wait", found)
    return found


@pytest.fixture(scope="module")
def said(team: GcpTeam, job: str) -> dict[str, str]:
    """What came of each way."""
    return {
        list(GCP)[outcome["index"]]: team.read(outcome["output"] + "said").decode()
        for outcome in team.results(job)
        if outcome["status"] == "succeeded"
    }


@pytest.mark.parametrize("way", GCP)
def test_no_way_leads_out(said: dict[str, str], way: str) -> None:
    assert not said[way].startswith("IN: "), said[way]
    assert re.search(GCP[way], said[way])


def test_a_fetch_writes_into_its_folder_alone(team: GcpTeam, job: str, tmp_path: Path) -> None:
    """A worker uploads no such name, but a program has the job's rights, and stores what it likes."""
    folder = tmp_path / "a/b/c/d/e"
    team.tidemill("fetch", job, "-o", str(folder), ok=(0, 1, 2))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and folder not in path.parents]
    assert not list(tmp_path.rglob("owned"))
