"""Outputs that are uploaded while their slot has another item. Programs are real, the store is a folder; what a slow
or failing store does is said by a test."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worker.fakes import Interrupted, worker_of
from tidemill.client.plan.spec import build_spec
from tidemill.descriptor import WorkerExit
from tidemill.errors import StoreError, StoreUnavailableError
from tidemill.job import Item
from tidemill.ledger import Outcome
from tidemill.store import Store, Stores
from tidemill.worker.items import uploads
from tidemill.worker.items.run_item import CommandRunner
from tidemill.worker.items.staging import Outputs, Staging
from tidemill.worker.items.task import Task
from tidemill.worker.loop import Worker
from tidemill.worker.machine import usage
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.slots import Slot
from tidemill.worker.machine.stop import Stop, StopReason
from tidemill.worker.programs import programs
from tidemill.worker.programs.faults import ItemError
from tidemill.worker.programs.programs import Programs

SECONDS = 30


@dataclass
class Ends:
    """Takes down what a runner tells, in order."""

    told: list[tuple[Any, ...]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def _tell(self, *what: Any) -> None:
        with self.changed:
            self.told.append(what)
            self.changed.notify_all()

    def __call__(self, outcome: Outcome) -> None:
        self._tell("done", outcome.index, outcome.status, outcome.reason)

    def sending(self, task: Task) -> None:
        self._tell("sending", task.item.index)

    def again(self, task: Task, attempt: int, memory_mib: int | None = None) -> None:
        self._tell("again", task.item.index, attempt)

    def unavailable(self, task: Task, error: StoreUnavailableError) -> None:
        self._tell("unavailable", task.item.index)

    def wait(self, count: int) -> list[tuple[Any, ...]]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.told) >= count, SECONDS), self.told
        return self.told


class Slow(Staging):
    """A store that takes outputs when a test lets it."""

    open = threading.Event()
    error: Exception | None = None

    def send(self, outputs: Outputs) -> None:
        assert self.open.wait(SECONDS)
        if self.error:
            raise self.error
        super().send(outputs)


@pytest.fixture(autouse=True)
def orphans_of_the_test(monkeypatch):
    """The runner ends no server of other tests for an orphan."""
    ours = usage.adopted_children()
    monkeypatch.setattr(programs, "adopted_children", lambda: usage.adopted_children() - ours)


class World:
    """A runner with a slot."""

    def __init__(self, folder: Path) -> None:
        self.stop = Stop()
        self.scratch = Scratch(folder / "scratch", "w")
        self.staging = Slow(Stores(Store.open(f"file://{folder}/store")), self.scratch)
        self.staging.open = threading.Event()
        self.runner = CommandRunner(Programs(self.stop), self.staging, self.scratch)
        self.slot = Slot(0, self.scratch.folder / "slot-0")
        self.out, self.ends = folder / "out", Ends()

    def task(self, index: int, script: str, **fields: Any) -> Task:
        command = ["sh", "-c", script]
        sizes = {"chunk_size": 1, "items_total": 9, "chunks_total": 9, "attempts": fields.pop("attempts", 2)}
        spec = build_spec(name="t", queue="q", command=command, **sizes)
        prefix = f"file://{self.out}"
        return Task(spec.job, 0, "a", spec, Item(index, "x"), prefix, {"PATH": "/usr/bin:/bin"}, self.stop, **fields)

    def run(self, *tasks: Task) -> None:
        self.runner.run(tasks, self.slot, self.ends)

    def let(self, error: Exception | None = None) -> None:
        self.staging.error = error
        self.staging.open.set()

    def close(self) -> None:
        self.let()
        self.runner.close(self.slot)
        self.staging.close()
        self.scratch.close()


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()


WRITE = "echo $TIDEMILL_INDEX > $TIDEMILL_OUTPUT/x"


def test_a_slot_runs_its_next_item_while_outputs_are_on_their_way(world):
    world.run(*(world.task(n, WRITE) for n in range(3)))
    assert world.ends.told == [("sending", 0), ("sending", 1), ("sending", 2)]
    assert not world.out.exists()
    world.let()
    assert sorted(world.ends.wait(6)[3:]) == [("done", n, "succeeded", None) for n in range(3)]
    assert [(world.out / str(n) / "a.1" / "x").read_text() for n in range(3)] == ["0\n", "1\n", "2\n"]


def test_an_item_cannot_damage_outputs_that_are_on_their_way(world):
    hostile = 'rm -rf "${TIDEMILL_OUTPUT%/*}"; cd ..; rm -rf "$TIDEMILL_OUTPUT"'
    world.run(world.task(0, WRITE), world.task(1, hostile, attempts=1))
    world.let()
    assert ("done", 0, "succeeded", None) in world.ends.wait(3)


def test_inputs_of_items_that_are_not_reached_go(world, tmp_path):
    (tmp_path / "x").touch()
    tasks = [replace(world.task(n, "cat {input}"), item=Item(n, str(tmp_path / "x"))) for n in range(3)]
    for task in tasks:
        world.runner.prefetch(task)
    world.stop.set(StopReason.SIGNAL)
    world.run(*tasks)
    # What is done after a transfer is over when its thread is.
    world.staging.close()
    assert list(world.scratch.folder.glob("inputs/*/*")) == []


def test_without_outputs_nothing_is_on_its_way(world):
    world.run(world.task(0, "true"))
    assert world.ends.told == [("done", 0, "succeeded", None)]


def test_outputs_that_cannot_be_sent_need_another_attempt(world):
    world.let(ItemError("output", "the store is away"))
    world.run(world.task(0, WRITE))
    assert world.ends.wait(2)[1:] == [("again", 0, 2)]
    world.run(world.task(0, WRITE, attempt=2))
    assert world.ends.wait(4)[3:] == [("done", 0, "failed", "output")]


@pytest.mark.parametrize("error", [ItemError("output", "no such name", final=True), KeyError("a mistake of ours")])
def test_what_another_attempt_cannot_change_is_not_tried_again(world, error):
    world.let(error)
    world.run(world.task(0, WRITE, attempts=3 if isinstance(error, ItemError) else 1))
    assert world.ends.wait(2)[1:] == [("done", 0, "failed", "output")]


@pytest.mark.parametrize("limit", ["MOST", "MOST_BYTES"])
def test_a_slot_waits_where_enough_is_on_its_way(world, monkeypatch, limit):
    monkeypatch.setattr(uploads, limit, {"MOST": 1, "MOST_BYTES": 2}[limit])
    slot = threading.Thread(target=world.run, args=[world.task(n, WRITE) for n in range(3)])
    slot.start()
    world.ends.wait(2)
    slot.join(0.2)
    assert world.ends.told == [("sending", 0), ("sending", 1)]
    world.let()
    slot.join(SECONDS)
    assert len(world.ends.wait(6)) == 6


def test_a_careful_attempt_sends_before_the_next_item_starts(world):
    world.let()
    world.run(*(world.task(n, WRITE, overlaps=False) for n in range(2)))
    assert world.ends.told == [("done", n, "succeeded", None) for n in range(2)]


class Sending(Interrupted):
    """Every program has ended when the worker is stopped; outputs are sent, or are not, while it drains."""

    sent = True

    def run(self, tasks: Any, slot: Slot, done: Any) -> None:
        ends, (task,) = done, tasks
        ends.sending(task)
        outcome = Outcome(index=task.item.index, uri=task.item.uri, status="succeeded")
        tell = (lambda: ends(outcome)) if self.sent else (lambda: ends.again(task, 2))
        threading.Timer(0.3, tell).start()
        self._stop.set(StopReason.NOTICE)


class NotSent(Sending):
    sent = False


@pytest.mark.parametrize(("runner", "finished"), [(Sending, {0}), (NotSent, set())])
def test_a_drain_waits_for_outputs_and_counts_what_is_sent(tmp_path, runner, finished):
    with worker_of(Worker, runner, ["a", "b"], 2, tmp_path) as (worker, ledger):
        assert worker.run() is WorkerExit.RECLAIMED
    assert set(ledger.chunk(0, 0).progress()) == finished


class Fails(Interrupted):
    """Outputs of the first attempt of every item cannot be sent."""

    attempts: list[tuple[int, int]]

    def run(self, tasks: Any, slot: Slot, done: Any) -> None:
        ends = done
        for task in tasks:
            self.attempts.append((task.item.index, task.attempt))
            ends.sending(task)
            if task.attempt == 1:
                ends.again(task, 2)
            else:
                ends(Outcome(index=task.item.index, uri=task.item.uri, status="succeeded", attempts=2))


def test_an_item_whose_outputs_could_not_be_sent_runs_again(tmp_path, monkeypatch):
    monkeypatch.setattr(Fails, "attempts", [], raising=False)
    with worker_of(Worker, Fails, ["a", "b"], 2, tmp_path) as (worker, ledger):
        assert worker.run() is WorkerExit.DONE
    record = ledger.chunk(0, 0).committed()
    assert record
    assert [outcome.attempts for outcome in record.outcomes] == [2, 2]
    assert sorted(Fails.attempts) == [(0, 1), (0, 2), (1, 1), (1, 2)]


def test_a_store_that_fails_is_the_items_failure_in_the_end(world, monkeypatch):
    monkeypatch.setattr(Store, "upload", lambda *_: (_ for _ in ()).throw(StoreError("away")))
    world.let()
    world.run(world.task(0, WRITE, attempts=1))
    assert world.ends.wait(2)[1:] == [("done", 0, "failed", "output")]


@pytest.mark.parametrize("overlaps", [True, False])
@pytest.mark.parametrize("away", [True, False])
def test_a_store_that_takes_nothing_is_no_items_failure(world, monkeypatch, overlaps, away):
    """Full, or without any answer: neither needs another attempt of the item."""

    def fails(*_: Any) -> Any:
        raise StoreError("away") if away else StoreUnavailableError("the disk is full")

    monkeypatch.setattr(Store, "upload", fails)
    if away:
        monkeypatch.setattr(Store, "size", fails)
    world.let()
    task = world.task(0, WRITE, attempts=1, overlaps=overlaps)
    if overlaps:
        world.run(task)
        assert world.ends.wait(2)[1:] == [("unavailable", 0)]
    else:
        with pytest.raises(StoreUnavailableError):
            world.run(task)
        assert world.ends.told == []


class Full(Interrupted):
    """The store takes the outputs of the first item, and is full when those of the second come: while the slot goes on,
    or in the slot."""

    in_the_slot = True

    def run(self, tasks: Any, slot: Slot, done: Any) -> None:
        for task in tasks:
            if task.item.index == 0:
                done(Outcome(index=0, uri=task.item.uri, status="succeeded"))
                continue
            slot.current = task.item.index
            error = StoreUnavailableError("the disk is full")
            if self.in_the_slot:
                raise error
            done.sending(task)
            done.unavailable(task, error)


class FullMeanwhile(Full):
    in_the_slot = False


@pytest.mark.parametrize("runner", [Full, FullMeanwhile])
def test_a_full_store_ends_the_worker_and_blames_no_item(tmp_path, runner):
    with worker_of(Worker, runner, ["a", "b"], 1, tmp_path) as (worker, ledger):
        assert worker.run() is WorkerExit.STORE_UNAVAILABLE
    full = ledger.chunk(0, 1)
    assert ledger.chunk(0, 0).committed()
    assert full.committed() is None
    assert full.progress() == {}
    assert not full.history().suspected
