"""When the keeper of a local run gives up. Its workers are not there: a test says which one ends, and how. Runs with
real workers are in tests/worker/test_local_run.py; a disk that is full is in neither."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidemill.descriptor import WorkerExit
from tidemill.services.local.lease import Run
from tidemill.worker.local.keeper import FAILURES, Keeper, WorkerProcess


class World:
    """A keeper with two workers, each of which holds a chunk."""

    def __init__(self, folder: Path) -> None:
        self.client, theirs = socket.socketpair()
        run = Run("file:///none", "j", [(0, n) for n in range(9)], 2, "", str(folder / "logs"), "")
        self.keeper = Keeper(run, theirs, [])
        self.ended: list[WorkerProcess] = []
        for _ in range(2):
            self.start()

    def start(self) -> WorkerProcess:
        number = self.keeper._started
        self.keeper._started += 1
        process = WorkerProcess(number, 1000 + number, self.client, [(0, number)], 0.0, served=True)
        self.keeper._processes[process.pid] = process
        return process

    def fails(self, process: WorkerProcess) -> WorkerProcess:
        """A worker loses its store, and another takes its place and gets a chunk. Returns the other."""
        del self.keeper._processes[process.pid]
        process.error = "disk full"
        self.keeper._start_at = 0.0
        self.keeper._died(process, WorkerExit.STORE_UNAVAILABLE)
        return self.start()

    @property
    def stopped(self) -> bool:
        return self.keeper._stopping_at is not None


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(Keeper, "_signal", lambda self, number: None)
    world = World(tmp_path)
    yield world
    for end in (world.client, world.keeper._client):
        end.close()


def test_workers_that_fail_in_turns_end_the_run(world: World):
    one, other = world.keeper._processes.values()
    for _ in range(FAILURES - 1):
        assert not world.stopped
        one, other = other, world.fails(one)
    world.fails(one)
    assert world.stopped
    assert world.keeper.error == "disk full"


def test_a_worker_that_was_at_work_before_is_waited_for(world: World):
    one, at_work = world.keeper._processes.values()
    for _ in range(2 * FAILURES):
        one = world.fails(one)
    assert not world.stopped
    world.fails(at_work)
    assert world.stopped


def test_progress_begins_the_count_anew(world: World):
    one, other = world.keeper._processes.values()
    for _ in range(FAILURES - 1):
        one, other = other, world.fails(one)
    world.keeper._hear(other, {"say": "progress", "round": 0, "chunk": other.leased[0][1]})
    one, at_work = world.fails(one), other
    for _ in range(FAILURES):
        one = world.fails(one)
    assert not world.stopped
    world.fails(at_work)
    assert world.stopped
