"""A job's use of its limit, as its workers record it and end the job. What this cannot prove: that the price
sent with a job is the billed one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.mutants import jobs
from tests.stored import submitted
from tests.unit.worker.fakes import Clock, Interrupted, worker_of
from tidemill.descriptor import WorkerExit
from tidemill.job import CostLimit
from tidemill.layout import ChunkKey
from tidemill.ledger import Ledger, Outcome
from tidemill.ledger.spent_seconds import spent_seconds, write_spent
from tidemill.store import Store
from tidemill.worker import loop
from tidemill.worker.chunks import spending
from tidemill.worker.chunks.spending import LOOKS, Spending, ends_job
from tidemill.worker.items.task import Task
from tidemill.worker.machine.slots import Slot
from tidemill.worker.machine.stop import StopReason

JOB = "t-00000000"
HOURLY = 3600.0
"""USD per hour of an item: one second costs a dollar."""


def of_a_job(items: int = 2) -> Ledger:
    """The ledger of a job with nothing done and one item per chunk."""
    return submitted(Store.open("memory://"), [f"u{n}" for n in range(items)], 1, job=JOB).ledger


@pytest.fixture
def ledger() -> Ledger:
    return of_a_job()


def test_slots_are_added_up_while_they_are_held(ledger: Ledger, clock: Clock):
    spending = Spending(ledger, ChunkKey(JOB, 0, 3), "a1-x", clock)
    clock.now += 50
    spending.on_slots(2)
    clock.now += 10
    spending.on_slots(3)
    clock.now += 5
    spending.on_slots(0)
    clock.now += 100
    assert spending.write() == 0.0, "it is not time"
    assert spending.write(ends=True) == 35
    assert spending.write(ends=True) == 0.0, "nothing is new"
    assert list(ledger.store.list(f"jobs/{JOB}/r0/spent")) == [f"jobs/{JOB}/r0/spent/3/3~a1-x~35000"]


def test_what_runs_for_long_is_known_to_a_half(ledger: Ledger, clock: Clock):
    spending = Spending(ledger, ChunkKey(JOB, 0, 0), "a1-x", clock)
    spending.on_slots(1)
    written = 0.0
    for second in range(1, 20_000):
        clock.now += 1
        written += spending.write()
        known = spent_seconds(ledger.store, JOB, 1) if second % 997 == 0 else written
        assert known == written
        assert second <= 300 or written >= second / 2
    assert len(list(ledger.store.list(f"jobs/{JOB}/r0/spent"))) == 7  # 300, 600, ... 19,200


def test_every_attempt_of_every_round_counts_once(ledger: Ledger):
    store = ledger.store
    for number, chunk, attempt, seconds in [
        (0, 1, "a1-x", 10),
        (0, 1, "a1-x", 25.5),
        (0, 1, "a2-y", 3),
        (1, 1, "a1-z", 7),
    ]:
        write_spent(store, ChunkKey(JOB, number, chunk), attempt, seconds)
    assert spent_seconds(store, JOB, 1) == 28.5
    assert spent_seconds(store, JOB, 2) == 35.5
    assert spent_seconds(store, "other-00000000", 2) == 0


@pytest.mark.parametrize("chunk_seconds", [1, 10, 250])
def test_a_limit_is_passed_by_little_however_small_the_chunks(
    ledger: Ledger, chunk_seconds: float, monkeypatch: pytest.MonkeyPatch
):
    """Workers that check by chance: seldom enough, and soon enough."""
    looks, total = 0, 0.0

    def added_up(*_: object) -> float:
        nonlocal looks
        looks += 1
        return total

    monkeypatch.setattr(spending, "spent_seconds", added_up)
    limit = CostLimit(max_usd=10_000, usd_per_item_hour=HOURLY)
    ends = []
    for seed in range(20):
        random.seed(seed)
        total, looks, fresh = 0.0, 0, of_a_job()
        while True:
            total += chunk_seconds
            if ends_job(fresh, limit, fresh.round(0), chunk_seconds):
                break
        ends.append(total / limit.max_usd)
        assert looks <= 2 * LOOKS
    assert max(ends) <= 1.25
    assert sum(ends) / len(ends) <= 1.04


def test_a_chunk_that_is_a_large_part_of_the_limit_is_always_looked_at(ledger: Ledger):
    limit = CostLimit(max_usd=100, usd_per_item_hour=HOURLY)
    write_spent(ledger.store, ChunkKey(JOB, 0, 0), "a1-x", 100)
    assert ends_job(ledger, limit, ledger.round(0), 100 / LOOKS)
    note = ledger.cancellation(0)
    assert note is not None
    assert (note["by"], note["reason"], note["max_usd"], note["rounds"]) == (
        "worker",
        "max_usd: about 100.00 of 100.00 USD are spent",
        100,
        1,
    )


def test_what_is_finished_is_not_called_cancelled(ledger: Ledger):
    for chunk in range(2):
        ledger.chunk(0, chunk).commit("a1-x", [Outcome(index=chunk, uri=f"u{chunk}", status="succeeded")])
    write_spent(ledger.store, ChunkKey(JOB, 0, 0), "a1-x", 100)
    assert not ends_job(ledger, CostLimit(max_usd=100, usd_per_item_hour=HOURLY), ledger.round(0), 100)
    assert ledger.cancellation(0) is None


# ---- a worker ---------------------------------------------------------------------------------------------------


class Timed(Interrupted):
    """Runs nothing; each item takes its slot for ten seconds of the clock."""

    clock = Clock()

    def run(self, tasks: Sequence[Task], slot: Slot, done: Callable[[Outcome], None]) -> None:
        for task in tasks:
            self.clock.now += 10
            done(Outcome(index=task.item.index, uri=task.item.uri, status="succeeded"))


class Taken(Timed):
    """The same, and the machine is reclaimed while an item runs."""

    def run(self, tasks: Sequence[Task], slot: Slot, done: Callable[[Outcome], None]) -> None:
        slot.current = tasks[0].item.index
        self.clock.now += 10
        self._stop.set(StopReason.NOTICE)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> None:
    Timed.clock.now = 1000.0
    made = Spending.__init__

    def with_the_clock(self: Spending, ledger: Ledger, key: ChunkKey, lease_id: str, **more: Any) -> None:
        made(self, ledger, key, lease_id, Timed.clock, **more)

    monkeypatch.setattr(Spending, "__init__", with_the_clock)


def done_with(limit: CostLimit | None, folder: Path) -> tuple[WorkerExit, Ledger]:
    """One worker's work on 40 chunks of one item, each costing ten dollars."""
    with worker_of(loop.Worker, Timed, [str(n) for n in range(40)], 1, folder, limit=limit) as (worker, ledger):
        return worker.run(), ledger


def test_a_worker_ends_its_job_at_the_limit(timed, tmp_path: Path):
    code, ledger = done_with(CostLimit(max_usd=95, usd_per_item_hour=HOURLY), tmp_path)
    # Chunks leased when the limit is reached are finished or returned; no more are begun.
    assert code is WorkerExit.STOPPED
    assert 10 <= len(ledger.done_chunks(0)) <= 12
    note = ledger.cancellation()
    assert note is not None
    assert note["reason"].startswith("max_usd: about 1")


def test_without_the_look_the_whole_job_runs(timed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    jobs.limit_unseen(monkeypatch)
    code, ledger = done_with(CostLimit(max_usd=95, usd_per_item_hour=HOURLY), tmp_path)
    assert code is WorkerExit.DONE
    assert len(ledger.done_chunks(0)) == 40


def test_a_job_without_a_limit_writes_nothing_of_it(timed, tmp_path: Path):
    code, ledger = done_with(None, tmp_path)
    assert code is WorkerExit.DONE
    assert list(ledger.store.list(f"jobs/{ledger.job}/r0/spent")) == []


def test_what_a_reclaim_has_ended_was_paid_for(timed, tmp_path: Path):
    limit = CostLimit(max_usd=1000, usd_per_item_hour=HOURLY)
    with worker_of(loop.Worker, Taken, ["a", "b"], 2, tmp_path, limit=limit) as (worker, ledger):
        assert worker.run() is WorkerExit.RECLAIMED
    assert ledger.done_chunks(0) == set()
    assert spent_seconds(ledger.store, ledger.job, 1) == 10
