"""What SIGKILL does not end is given up in bounded time, and the worker leaves. The processes here are real, but
SIGKILL does not reach them. What this cannot prove: a sleep in the kernel, which also holds the end of a container."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worker.fakes import Lease, Runs, Source, Submitted
from tidemill.descriptor import WorkerExit
from tidemill.machine import Capacity
from tidemill.store import Store
from tidemill.worker import output
from tidemill.worker.items.task import Task
from tidemill.worker.machine import usage
from tidemill.worker.machine.stop import Stop, StopReason
from tidemill.worker.output import ItemOutput
from tidemill.worker.programs import programs, supervisor
from tidemill.worker.programs.process import Pipes, ProgramExit, run_program
from tidemill.worker.programs.programs import Programs
from tidemill.worker.programs.supervisor import Limits, Supervisor

PATH = {"PATH": os.environ["PATH"]}


class Stuck:
    """Processes that no signal reaches, and what the worker says of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stop, self.killed = Stop(), set[int]()
        self.said: list[str] = []
        self.programs = Programs(self.stop, stuck_seconds=0.3)
        for module in (programs, supervisor):
            monkeypatch.setattr(module, "signal_group", lambda leader, number: self.killed.add(leader))
        output.also_to(lambda lines: self.said.extend(line["message"] for line, _ in lines if "event" in line))

    def run(self, folder: Path, limits: Limits, program: str = "sleep 600") -> ProgramExit:
        return run_program(
            self.programs,
            ["sh", "-c", f"exec {program}"],
            cwd=folder,
            env=PATH,
            limits=limits,
            output=ItemOutput({}),
            pipes=Pipes(),
        )


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stuck]:
    stuck = Stuck(monkeypatch)
    yield stuck
    output.also_to(None)
    for pid in stuck.killed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_a_program_past_its_time_limit_is_given_up(stuck: Stuck, tmp_path: Path):
    ended = stuck.run(tmp_path, Limits(0.05, grace_seconds=0.05))
    assert (ended.reason, ended.final, ended.left_something) == ("timeout", True, True)
    assert ended.error == "killed: its time limit is 0.05 s; SIGKILL did not end it"
    assert stuck.stop.leaving
    assert not stuck.stop.raised
    (pid,) = stuck.killed
    assert f"process {pid} of an item was sent SIGKILL and does not end: its state is S." in stuck.said[0]


def test_a_program_past_its_memory_limit_is_given_up(stuck: Stuck, tmp_path: Path):
    hold = f"{sys.executable} -c 'import time; held = bytearray(40 << 20); time.sleep(600)'"
    ended = stuck.run(tmp_path, Limits(600, memory_mib=32), hold)
    assert (ended.reason, ended.final) == ("memory", True)
    assert ended.error.endswith("; SIGKILL did not end it")
    assert stuck.stop.leaving


def test_a_drain_does_not_wait_for_it_for_ever(stuck: Stuck, tmp_path: Path):
    stuck.stop.set(StopReason.SIGNAL)
    assert stuck.run(tmp_path, Limits(600, grace_seconds=0.05)).reason == "stopped"
    assert stuck.stop.leaving


def test_the_process_of_a_function_is_given_up(stuck: Stuck, tmp_path: Path):
    child = stuck.programs.start(["sleep", "600"], cwd=tmp_path, env=PATH, stdout=1, stderr=2)
    followed = Supervisor(stuck.programs, child, Limits(0, grace_seconds=0), PATH, time.monotonic() - 1)
    assert followed.check(stuck.stop) == "timeout"
    reaped = followed.end()
    verdict = followed.verdict(reaped)
    assert verdict is not None
    assert (reaped.stuck, verdict.reason, verdict.final) == (True, "timeout", True)


def test_what_a_program_leaves_behind_is_given_up(stuck: Stuck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    left = stuck.programs.start(["sleep", "600"], cwd=tmp_path, env=PATH, stdout=1, stderr=2)
    kill = os.kill
    monkeypatch.setattr(os, "kill", lambda pid, number: None if pid == left.pid else kill(pid, number))
    stuck.programs._leaders.clear()
    monkeypatch.setattr(programs, "adopted_children", lambda: {left.pid})
    ended = stuck.run(tmp_path, Limits(600), "true")
    assert (ended.reason, ended.final) == (None, False)
    assert stuck.stop.leaving
    monkeypatch.undo()
    kill(left.pid, signal.SIGKILL)
    left.wait()


@pytest.mark.parametrize(("state", "why"), [("D", "sleeps in the kernel"), ("R", "its state is R")])
def test_why_it_does_not_end(state: str, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "stat").write_text(f"1 (a) b) {state} 1 1")
    monkeypatch.setattr(usage, "open", lambda *_: (tmp_path / "stat").open("rb"), raising=False)
    assert why in usage.why_stuck(os.getpid())


def test_a_program_of_another_user(monkeypatch: pytest.MonkeyPatch):
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert usage.why_stuck(1) == "it runs as another user"


@pytest.mark.parametrize("many_jobs", [True, False])
def test_the_worker_leaves_when_what_else_it_runs_has_ended(many_jobs: bool, store: Store, serve: Any):
    stop = Stop()
    running, stuck = threading.Event(), threading.Event()
    theirs, ours = (Submitted(store, 5, max_parallel=1, spec_version=4) for _ in range(2))

    def run(task: Task) -> str:
        if task.job == ours.spec.job:
            running.set()
            assert stuck.wait(60)
            return "succeeded"
        assert running.wait(60)
        stop.leave()
        stuck.set()
        return "timeout"

    source, runs = Source(Lease(theirs), Lease(ours), Lease(Submitted(store))), Runs(run)
    source.many_jobs = many_jobs
    worker = serve(source, runs, stop=stop, capacity=Capacity(2.0, 16_384))
    assert worker.run() is (WorkerExit.RECLAIMED if many_jobs else WorkerExit.BROKEN)
    assert sorted(runs.ran) == sorted([(theirs.spec.job, 0), (ours.spec.job, 0)])
    assert [lease.ended for lease in source.given] == [["release"], ["release"]]
    assert source.stopped
    for job, status in ((theirs, "failed"), (ours, "succeeded")):
        chunk = job.ledger.chunk(0, 0)
        assert {index: outcome.status for index, outcome in chunk.progress().items()} == {0: status}
        assert not chunk.history().deaths
