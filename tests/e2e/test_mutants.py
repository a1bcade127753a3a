"""With a safeguard removed, the figure that it guards changes, so the tests of this folder can fail.

How soon a real agent sees a notice, and how often S3 answers 409, is not shown here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localcloud.aws.batch.core import Settings
from localcloud.cloud import Cloud
from tests.e2e.team import TIMEOUT_SECONDS, Team, await_that, client, team_up
from tests.stored import write_manifest, write_round, write_spec
from tidemill import layout
from tidemill.client.plan.spec import build_spec
from tidemill.job import Item
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
CPUS = 8
"""vCPUs of the demo stack's queue; an item takes one."""
NOTICE_SECONDS = 120


@pytest.fixture(scope="module")
def without_draining(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A team whose machines were started from the mutant's user data."""
    with Cloud(tmp_path_factory.mktemp("localcloud")) as cloud:
        yield team_up(cloud, tmp_path_factory.mktemp("demo-aws"), WITHOUT_DRAINING)


@contextmanager
def doomed_machine(team: Team, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """A machine that gets its notice while it runs chunks and more wait than all machines can hold; and these chunks.

    Each worker is at work by then: one that finds the notice at its start holds its place until the machine is gone.
    The machine outlives its workers, which leave after an eighth of the notice.
    """
    items, _ = team.put_items("doomed", 3 * CPUS, folder)
    team.cloud.control("batch/settings", reclaim_seconds=NOTICE_SECONDS)
    job = team.submit("doomed", items, "sleep", "600", chunk_size=1)
    attempts = layout.of_round(job, 0, "attempts")

    def leased() -> set[str]:
        return {name.removeprefix(attempts).split("/")[1] for name in team.names(attempts)}

    try:
        await_that(lambda: len(leased()) == CPUS, "every machine is full of chunks at work")
        reclaimed = team.cloud.control("batch/reclaim")
        yield reclaimed["instance"], reclaimed["children"]
    finally:
        team.tidemill("cancel", job)
        await_that(lambda: not children(team), "no chunk of the job is left")
        team.cloud.control("batch/settings", reclaim_seconds=Settings.reclaim_seconds)


def children(team: Team) -> dict[str, str | None]:
    """The machine of each chunk that is waiting, starting or running."""
    every = team.cloud.control("batch/children")["children"]
    active = ("RUNNABLE", "STARTING", "RUNNING")
    return {child["id"]: child.get("instance") for child in every if child["status"] in active}


def placements(team: Team, instance: str) -> tuple[int, int]:
    """How many chunks were started on a machine after its notice, and how many anywhere."""
    every = team.cloud.control("batch/placements")["placements"]
    return sum(each["doomed"] for each in every if each["instance"] == instance), len(every)


def test_nothing_is_placed_on_a_machine_with_a_notice(team: Team, tmp_path: Path) -> None:
    with doomed_machine(team, tmp_path) as (instance, chunks):
        await_that(lambda: any(children(team).get(each) != instance for each in chunks), "the machine has room")
        _, before = placements(team, instance)
        await_that(lambda: placements(team, instance)[1] > before, "a chunk that waited is started")
        assert placements(team, instance)[0] == 0


def test_without_the_draining_line_released_chunks_come_back_to_the_doomed_machine(
    without_draining: Team, tmp_path: Path
) -> None:
    with doomed_machine(without_draining, tmp_path) as (instance, _):
        await_that(lambda: placements(without_draining, instance)[0], "a chunk is started on the doomed machine")


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
        timeout=TIMEOUT_SECONDS,
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
