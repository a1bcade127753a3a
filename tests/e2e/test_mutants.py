"""With a safeguard removed, the figure that it guards changes: the tests of this folder can fail.

How soon a real agent sees a notice, and how often S3 answers 409, is not shown here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.cloud import Cloud
from tests.e2e.team import Team, await_that, client, team_up
from tests.stored import write_manifest, write_round, write_spec
from tidemill.job import Item, build_spec
from tidemill.ledger import Ledger
from tidemill.ledger.rounds import Round, RoundArray, array_name
from tidemill.store import Store

WITHOUT_DRAINING = """
import runpy
from tests.mutants import no_draining
no_draining.apply()
runpy.run_path("ordinary.py", run_name="__main__")
"""
BUCKET = "job-store"


@pytest.fixture(scope="module")
def without_draining(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A team whose machines were started from the mutant's user data."""
    with Cloud(tmp_path_factory.mktemp("localcloud")) as cloud:
        yield team_up(cloud, tmp_path_factory.mktemp("demo-aws"), WITHOUT_DRAINING)


def doomed_placements(team: Team, folder: Path) -> int:
    """Children that were started on a machine with a notice, while a job loses one of its machines."""
    items, _ = team.put_items("doomed", 60, folder)
    job = team.submit("doomed", items, "sh", "-c", "sleep 0.3", chunk_size=2)
    instance = team.cloud.control("batch/reclaim", instance=running_machine(team, job))["instance"]
    team.tidemill("wait", job)
    placements = team.cloud.control("batch/placements")["placements"]
    return sum(placement["doomed"] for placement in placements if placement["instance"] == instance)


def running_machine(team: Team, job: str) -> str:
    """A machine that runs a child, once the first chunk of the job is done."""
    await_that(lambda: team.status(job)["succeeded"], "a chunk is done")

    def machine() -> str | None:
        children = team.cloud.control("batch/children")["children"]
        return next((child["instance"] for child in children if child["status"] == "RUNNING"), None)

    return await_that(machine, "a child runs")


def test_nothing_is_placed_on_a_machine_with_a_notice(team: Team, tmp_path: Path) -> None:
    assert doomed_placements(team, tmp_path) == 0


def test_without_the_draining_line_released_chunks_come_back_to_the_doomed_machine(
    without_draining: Team, tmp_path: Path
) -> None:
    assert doomed_placements(without_draining, tmp_path) > 0


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A localcloud with an empty bucket."""
    with Cloud(tmp_path_factory.mktemp("localcloud")) as running:
        location = {"LocationConstraint": running.env["AWS_REGION"]}
        client(running.env, "s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=location)
        yield running


@pytest.fixture
def store(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Store:
    for key, value in cloud.env.items():
        if key.startswith("AWS_"):
            monkeypatch.setenv(key, value)
    return Store.open(f"s3://{BUCKET}")


def run_worker(cloud: Cloud, store: Store, name: str, module: str, folder: Path) -> tuple[int, str]:
    """Run a worker on a job of one chunk whose first commit is answered with 409 and not written.

    Returns:
        Its exit code, and the job's id.
    """
    job = f"{name}-00000001"
    info = write_manifest(store, job, [Item(0, "one")], 1)
    spec = build_spec(
        job=job, name=name, queue="cpu", command=["true"], chunk_size=1, items_total=info.items, chunks_total=1
    )
    ledger = Ledger(store, job)
    spec_sha = write_spec(ledger, spec)
    array = RoundArray(name=array_name(job, 0, 0), count=1)
    round_sha = write_round(ledger, Round(round=0, arrays=[array]))
    cloud.control("faults", match=f"PUT .*{job}/r0/done/", answer="409", times=1)
    env = {
        **cloud.env,
        "TIDEMILL_STORE": store.uri,
        "TIDEMILL_REGION": cloud.env["AWS_REGION"],
        "TIDEMILL_SCRATCH": str(folder),
        "TIDEMILL_CACHE": str(folder),
        "TIDEMILL_QUEUE": "cpu",
        "TIDEMILL_JOB": job,
        "TIDEMILL_ROUND": "0",
        "TIDEMILL_ARRAY": "0",
        "TIDEMILL_JOB_SHA256": spec_sha,
        "TIDEMILL_ROUND_SHA256": round_sha,
        "AWS_BATCH_JOB_ID": "00000000-0000-0000-0000-000000000001",
        "AWS_BATCH_JOB_ATTEMPT": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", module],
        env=env,
        cwd=os.getcwd(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, job


def test_a_409_on_the_commit_is_written_again(cloud: Cloud, store: Store, tmp_path: Path) -> None:
    code, job = run_worker(cloud, store, "sound", "tidemill.worker", tmp_path)
    assert code == 0
    assert [outcome.status for outcome in Ledger(store, job).outcomes()] == ["succeeded"]


def test_without_the_read_back_an_acknowledged_chunk_has_no_record(cloud: Cloud, store: Store, tmp_path: Path) -> None:
    code, job = run_worker(cloud, store, "broken", "tests.mutants.no_read_back", tmp_path)
    assert code == 0, "the chunk was acknowledged"
    assert list(Ledger(store, job).outcomes()) == []
