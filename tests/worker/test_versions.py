"""Workers and clients of different versions on one job. `fixtures/version_0_1_0` is what the first release wrote: a job
of three chunks, one of them done. What the next release will write is guessed: more keys, and a newer spec."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.worker.containers import Team, TeamJob
from tidemill.descriptor import WorkerExit
from tidemill.job import SPEC_VERSION
from tidemill.ledger import Ledger

JOB = "old-0a1b2c3d"
FIRST_RELEASE = Path(__file__).parent / "fixtures" / "version_0_1_0"
HASHES = {
    "job.json": "5718fea22f2476ea11e94d3db0fe594b6e4e77e3bae3d226fc5b51bab9c21268",
    "rounds/0.json": "3b198edc229cc011cb700d6718bf6da0f3882c8053554dd609f3f0ac8770c2c0",
}


@pytest.fixture
def folder(team) -> Path:
    shutil.copytree(FIRST_RELEASE, team.root / "store")
    return team.root / "store" / "jobs" / JOB


def found(team: Team, folder: Path) -> TeamJob:
    """The job as its submitter knows it."""
    hashes = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in HASHES]
    ledger = Ledger(team.store, JOB)
    return TeamJob(ledger.spec(), ledger, hashes[0], hashes[1], team)


def rewrite(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))


def finish(job: TeamJob) -> None:
    for child in (1, 2):
        assert job.run(child).code == WorkerExit.DONE
    counts = job.ledger.counts()
    assert (counts.items, counts.succeeded, counts.failed, counts.finished) == (5, 4, 1, True)
    outcomes = list(job.ledger.outcomes())
    assert [outcome.index for outcome in outcomes] == [0, 1, 2, 3, 4]
    assert [outcome.status for outcome in outcomes] == [*["succeeded"] * 4, "failed"]
    assert job.outputs(outcomes[2]) == {"index": b"2\n"}


def test_a_job_of_the_first_release_is_finished_by_this_one(team, folder):
    for name, sha256 in HASHES.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256, "an immutable object changed"
    finish(found(team, folder))


def test_a_chunk_that_the_first_release_committed_is_acknowledged(team, folder):
    before = (folder / "r0/done/0/0.jsonl").read_bytes()
    assert found(team, folder).run(0).code == WorkerExit.DONE
    assert (folder / "r0/done/0/0.jsonl").read_bytes() == before


def test_keys_of_a_newer_client_are_passed_over(team, folder):
    rewrite(
        folder / "job.json", tidemill_version="9.9.0", priority=7, resources={"cpus": 1, "memory_mib": 512, "tpus": 1}
    )
    rewrite(folder / "rounds/0.json", reason="a newer client knows why")
    done = folder / "r0/done/0/0.jsonl"
    head, *lines = done.read_text().splitlines()
    newer = [json.dumps(json.loads(head) | {"region": "x"}), *(json.dumps(json.loads(x) | {"gpu": 1}) for x in lines)]
    done.write_text("\n".join(newer) + "\n")
    finish(found(team, folder))


def test_a_spec_of_a_newer_version_is_refused_before_anything_runs(team, folder):
    job = found(team, folder)
    rewrite(folder / "job.json", spec_version=SPEC_VERSION + 1)
    job.job_sha256 = hashlib.sha256((folder / "job.json").read_bytes()).hexdigest()
    ended = job.run(1)
    assert ended.code == WorkerExit.STOPPED
    (said,) = ended.messages(level="error")
    assert "newer Tidemill" in said
    assert list(team.store.list(f"jobs/{JOB}/r0/attempts")) == []


def test_a_worker_that_is_too_old_for_its_stack_does_nothing(team, folder):
    """It does not retry: the next container has the same worker."""
    ended = found(team, folder).run(1, TIDEMILL_MIN_WORKER="999.0.0")
    assert ended.code == WorkerExit.STOPPED
    (said,) = ended.messages(level="error")
    assert "TIDEMILL_MIN_WORKER" in said
    assert "999.0.0" in said
    assert list(team.store.list(f"jobs/{JOB}/r0/attempts")) == []
