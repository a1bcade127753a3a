"""The loop with simulated programs: its threads may act in any order. No process is started."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.unit.worker.fakes import Instant, Interrupted, worker_of
from tidemill.descriptor import WorkerExit
from tidemill.ledger import Outcome
from tidemill.ledger.digest import RanOn
from tidemill.worker.chunks.chunk import ChunkRun
from tidemill.worker.items.task import Task
from tidemill.worker.loop import Worker
from tidemill.worker.machine.slots import Slot


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
