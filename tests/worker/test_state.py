"""Items with state: what survives a reclaim, a death and a failure. Workers and programs are real, machines are not."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.worker.containers import Team, TeamJob, ran, until
from tidemill.descriptor import WorkerExit
from tidemill.state import Snapshots

QUICK = {"snapshot_seconds": 1}
PROGRAM = Path(__file__).with_name("programs") / "sgd.py"


def train(team: Team, *arguments: str, state: dict[str, Any] | None = None, **spec: Any) -> TeamJob:
    """A job of one item, which trains until step 200 and saves every 20 steps."""
    command = ["python3", str(PROGRAM), "{state}", "{output}", *arguments]
    return team.job(["x"], command, state={**QUICK, **(state or {})}, spec_version=4, **spec)


def weights(job: TeamJob) -> bytes:
    return job.outputs(job.outcomes()[0])["weights"]


def steps(lines: list[dict[str, Any]]) -> list[int]:
    """At which steps the program began, in all its attempts."""
    return [int(line["message"].split()[1]) for line in lines if line["message"].startswith("start ")]


def saved(job: TeamJob) -> int:
    """Files of the newest snapshot of the item."""
    newest = Snapshots(job.team.store, job.spec.job, 0).newest()
    return len(newest.tree.files) if newest else 0


def saved_step(job: TeamJob) -> int:
    """The step of the checkpoint in the newest snapshot of the item."""
    newest = Snapshots(job.team.store, job.spec.job, 0).newest()
    files = [job.team.store.get(file.object) for file in newest.tree.files] if newest else []
    return json.loads(files[0])["step"] if files else 0


@pytest.fixture
def undisturbed(team) -> bytes:
    job = train(team, "0")
    assert job.run().code == WorkerExit.DONE
    return weights(job)


def test_a_killed_worker_costs_little_and_the_weights_are_the_same(team, undisturbed):
    job = train(team, "0", "wait")
    worker = job.start()
    until(lambda: saved_step(job) == 100, "a snapshot")
    worker.kill()
    worker.communicate()
    rest = job.run(delivery=2)
    assert rest.code == WorkerExit.DONE
    assert steps(rest.lines) == [100]
    assert weights(job) == undisturbed
    record = job.ledger.chunk(0, 0).committed()
    assert record is not None
    digest = record.header.digest
    assert digest is not None
    # The item has no input, so what it waited for is its state.
    assert digest["fetch"] > 0


@pytest.mark.parametrize("how", ["notice", "signal"])
def test_a_program_that_saves_when_it_is_told_repeats_nothing(team, machine, undisturbed, how):
    job = train(team, "0.01", "save-at-term", state={"snapshot_seconds": 3600})
    worker = job.start(**machine.environment)
    out = iter(worker.stdout)  # type: ignore[arg-type]
    for line in out:
        if b"saved 40" in line:
            break
    if how == "notice":
        machine.give_notice()
    else:
        worker.send_signal(signal.SIGTERM)
    told = [json.loads(line) for line in out]
    assert worker.wait(timeout=60) == WorkerExit.RECLAIMED
    reached = [int(line["message"].split()[1]) for line in told if line["message"].startswith("saved ")]
    rest = job.run(delivery=2)
    assert steps(rest.lines) == reached[-1:] != []
    assert weights(job) == undisturbed


def test_a_paused_worker_does_not_disturb_its_successor(team, undisturbed):
    job = train(team, "0.05", "wait")
    paused = job.start()
    until(lambda: saved(job), "a snapshot")
    paused.send_signal(signal.SIGSTOP)
    other = job.start(delivery=2)
    before = until(lambda: Snapshots(team.store, job.spec.job, 0).newest(), "a claim")
    until(lambda: _attempts(job) > 1, "the second attempt")
    time.sleep(6)
    paused.send_signal(signal.SIGCONT)
    # Its program would wait forever, and the next regular question is a minute away.
    assert paused.wait(timeout=45) == WorkerExit.RECLAIMED
    assert ran(other).code == WorkerExit.DONE
    assert weights(job) == undisturbed
    claims = [one for one in Snapshots(team.store, job.spec.job, 0).newest_first() if one.seq > before.seq]
    assert len({one.attempt for one in claims}) == 1


def _attempts(job: TeamJob) -> int:
    return len({one.attempt for one in Snapshots(job.team.store, job.spec.job, 0).newest_first()})


def test_a_failed_attempt_goes_on_from_the_last_snapshot(team):
    """The program fails at step 100 of its first attempt."""
    job = train(team, "0", "fail-once", "commit", attempts=2)
    run = job.run()
    assert job.outcomes()[0].status == "succeeded"
    assert steps(run.lines) == [0, 100]


def test_a_snapshot_that_the_program_cannot_read_gives_way_to_the_one_before(team):
    """What it writes at step 100 makes it fail at each start."""
    job = train(team, "0", "poisoned-checkpoint", "commit", attempts=4)
    run = job.run()
    assert job.outcomes()[0].status == "succeeded"
    assert steps(run.lines) == [0, 80]


@pytest.mark.parametrize(
    ("script", "why"),
    [("mkfifo $0/f; sleep 60", "a FIFO"), ("head -c 3000000 /dev/zero > $0/f; sleep 60", "its limit is 0.001 GiB")],
)
def test_state_that_cannot_be_kept_fails_the_item(team, script, why):
    job = team.job(["x"], ["sh", "-c", script, "{state}"], state={**QUICK, "max_gib": 0.001}, spec_version=4)
    assert job.run().code == WorkerExit.DONE
    outcome = job.outcomes()[0]
    assert (outcome.reason, why in (outcome.error or "")) == ("state", True)


def test_a_program_says_itself_when_its_state_is_whole(team):
    """It writes two files without a pause and never rests; only what stands at `.commit` is saved."""
    script = """
import os, pathlib, sys, time
state = pathlib.Path(sys.argv[1])
for n in range(3):
    (state / "a").write_text(str(n)); (state / "b").write_text(str(n)); (state / ".commit").touch()
    while (state / ".commit").exists(): time.sleep(0.01)
    (state / "a").write_text("torn")
os.kill(os.getpid(), 9)
"""
    job = team.job(["x"], ["python3", "-c", script, "{state}"], state={"snapshot_seconds": 3600}, spec_version=4)
    job.run()
    newest = Snapshots(team.store, job.spec.job, 0).newest()
    assert newest is not None
    assert {file.path: team.store.get(file.object) for file in newest.tree.files} == {"a": b"2", "b": b"2"}


def test_a_log_that_is_written_all_the_time_does_not_hold_a_snapshot_up(team):
    script = "echo 1 > $0/model; exec 3>$0/log; while :; do echo line >&3; sleep 0.01; done"
    job = team.job(["x"], ["sh", "-c", script, "{state}"], state=QUICK, spec_version=4)
    worker = job.start()
    until(lambda: saved(job) == 2, "a snapshot of both")
    worker.send_signal(signal.SIGTERM)
    assert ran(worker).code == WorkerExit.RECLAIMED
    found = [one for one in Snapshots(team.store, job.spec.job, 0).newest_first() if one.open]
    assert found[0].open == ("log",)
