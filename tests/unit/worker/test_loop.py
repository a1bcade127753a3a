"""The loop with simulated programs: its threads may act in any order. No process is started."""

from __future__ import annotations

import gc
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.stored import write_manifest, write_round, write_spec
from tidemill.client.plan.spec import build_spec
from tidemill.descriptor import WorkerExit
from tidemill.job import CostLimit
from tidemill.ledger import Ledger, Outcome, Round, RoundArray
from tidemill.ledger.digest import UNKNOWN, RanOn
from tidemill.store import Store
from tidemill.worker.chunk import ChunkRun
from tidemill.worker.leases.array import ArrayLease
from tidemill.worker.loop import Worker
from tidemill.worker.scratch import Scratch
from tidemill.worker.slots import Slot
from tidemill.worker.stop import Stop, StopReason
from tidemill.worker.task import Task


class Interrupted:
    """Runs nothing: the worker is stopped while the item runs, and the program is gone at once."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop

    def run(self, tasks: Sequence[Task], slot: Slot, done: Callable[[Outcome], None]) -> None:
        slot.current = tasks[0].item.index
        self._stop.set(StopReason.NOTICE)

    def close(self, slot: Slot) -> None:
        pass


class Instant(Interrupted):
    """Runs nothing: every item has succeeded."""

    def run(self, tasks: Sequence[Task], slot: Slot, done: Callable[[Outcome], None]) -> None:
        for task in tasks:
            done(Outcome(index=task.item.index, uri=task.item.uri, status="succeeded"))


class Leases:
    """The children of an array, one after the other."""

    many_jobs = False

    def __init__(self, environments: list[dict[str, str]]) -> None:
        self._left = deque(environments)

    @property
    def exhausted(self) -> bool:
        return not self._left

    def lease(self, seconds: float = 0.0) -> ArrayLease | None:
        return ArrayLease(self._left.popleft()) if self._left else None

    def end(self) -> None:
        pass

    def close(self) -> None:
        pass


class Late(Worker):
    """A loop that looks only when its slots have ended: its thread got no time."""

    def _drain(self) -> None:
        self._items.threads.shutdown(wait=True)
        super()._drain()


class LateHand(Late):
    """The same, and the news of the slot's end was taken in before the stop was seen."""

    def _turn(self, seconds: float) -> None:
        self._items.threads.shutdown(wait=True)
        super()._turn(seconds)


@contextmanager
def worker_of(
    loop: type[Worker],
    runners: type[Interrupted],
    items: list[str],
    chunk_size: int,
    folder: Path,
    *,
    limit: CostLimit | None = None,
    machine: RanOn = UNKNOWN,
) -> Iterator[tuple[Worker, Ledger]]:
    """A worker that gets every chunk of a job."""
    store, chunks = Store.open("memory://"), -(-len(items) // chunk_size)
    spec = build_spec(
        name="t",
        queue="q",
        command=["true"],
        chunk_size=chunk_size,
        items_total=len(items),
        chunks_total=chunks,
        attempts=1,
        limit=limit,
    )
    write_manifest(store, spec.job, items, chunk_size)
    ledger = Ledger(store, spec.job)
    env = {
        "TIDEMILL_JOB": spec.job,
        "TIDEMILL_ROUND": "0",
        "TIDEMILL_ARRAY": "0",
        "TIDEMILL_JOB_SHA256": write_spec(ledger, spec),
        "TIDEMILL_ROUND_SHA256": write_round(
            ledger, Round(round=0, arrays=[RoundArray(name="a", first=0, count=chunks)])
        ),
        "AWS_BATCH_JOB_ID": "11111111-aaaa",
    }
    leases: Any = Leases([{**env, "AWS_BATCH_JOB_ARRAY_INDEX": str(chunk)} for chunk in range(chunks)])
    stop, scratch = Stop(), Scratch(folder, "w", None)
    programs: Any = runners(stop)
    try:
        yield loop(store, leases, programs, scratch=scratch, stop=stop, base_env={}, machine=machine), ledger
    finally:
        scratch.close()


@pytest.mark.parametrize("loop", [Worker, Late, LateHand])
def test_a_reclaim_is_counted_however_fast_the_program_ends(loop: type[Worker], tmp_path: Path):
    with worker_of(loop, Interrupted, ["a", "b"], 2, tmp_path) as (worker, ledger):
        assert worker.run() is WorkerExit.RECLAIMED
    past = ledger.chunk(0, 0).history()
    assert (dict(past.reclaims), dict(past.deaths)) == ({0: 1}, {})


class Waiting(Instant):
    """An item whose slot waits for its input, and then for its upload."""

    def run(self, tasks: Sequence[Task], slot: Slot, done: Callable[[Outcome], None]) -> None:
        with tasks[0].waits.fetching():
            time.sleep(0.05)
        with tasks[0].waits.sending():
            time.sleep(0.02)
        super().run(tasks, slot, done)


def test_a_record_says_where_its_chunk_ran_and_what_its_slots_waited_for(tmp_path: Path):
    where = RanOn("i-1", "c7i.large", "eu-central-1a", "spot")
    with worker_of(Worker, Waiting, ["a", "b"], 2, tmp_path, machine=where) as (worker, ledger):
        assert worker.run() is WorkerExit.DONE
    record = ledger.chunk(0, 0).committed()
    assert record
    digest = record.header.digest
    assert digest
    assert digest["machine"] == {
        "id": "i-1",
        "type": "c7i.large",
        "zone": "eu-central-1a",
        "market": "spot",
        "slots": 1,
    }
    assert digest["fetch"] >= 0.05 * 2
    assert digest["upload"] >= 0.02 * 2
    # Each figure is rounded to a millisecond.
    assert digest["held"] >= digest["fetch"] + digest["upload"] - 0.002
    assert digest["tries"] == [2, 0, 0]


def test_what_an_earlier_attempt_has_ended_is_no_work_of_the_slots_that_commit_it(tmp_path: Path):
    earlier = Outcome(index=0, uri="a", status="succeeded", attempts=1, wall_seconds=100.0)
    with worker_of(Worker, Instant, ["a", "b", "c"], 3, tmp_path) as (worker, ledger):
        ledger.chunk(0, 0).marker("earlier", 1, {}).drained([])
        ledger.chunk(0, 0).write_progress("earlier", 0, [earlier])
        assert worker.run() is WorkerExit.DONE
    record = ledger.chunk(0, 0).committed()
    assert record
    digest = record.header.digest
    assert digest
    assert (digest["succeeded"], digest["tries"], digest["wall"]["max"]) == (2, [3, 0, 0], 100.0)
    assert digest["worked"] == pytest.approx(sum(each.wall_seconds for each in record.outcomes) - 100, abs=0.001)


def test_a_committed_chunk_leaves_the_memory_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It must not wait for the garbage collector: half a million items would be in memory at once."""
    alive: weakref.WeakSet[ChunkRun] = weakref.WeakSet()
    most, opened = [], ChunkRun.open

    def open_(self: ChunkRun, slots: int) -> None:
        alive.add(self)
        most.append(len(alive))
        opened(self, slots)

    monkeypatch.setattr(ChunkRun, "open", open_)
    gc.disable()
    try:
        with worker_of(Worker, Instant, [str(index) for index in range(60)], 10, tmp_path) as (worker, ledger):
            assert worker.run() is WorkerExit.DONE
            del worker
    finally:
        gc.enable()
    assert len(ledger.done_chunks(0)) == len(most) == 6
    # The next one is leased while the last items of one still run.
    assert max(most) <= 3
