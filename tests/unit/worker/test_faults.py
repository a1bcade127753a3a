"""Whose fault is it? What an item or the data of a job does to the worker and to everything else on it: the loop with
programs that are not there. Real processes that kill their worker are in tests/worker; a kernel that ends a whole
machine is in neither."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.worker.fakes import Lease, Runs, Source, Submitted
from tidemill import layout
from tidemill.descriptor import WorkerExit
from tidemill.ledger import Outcome, attempts
from tidemill.ledger.attempts import POISON_ATTEMPTS
from tidemill.machine import Capacity
from tidemill.store import Store
from tidemill.worker.chunks import chunk as chunk_module
from tidemill.worker.chunks.chunk import ChunkRun
from tidemill.worker.items.task import Task
from tidemill.worker.loop import Worker
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.slots import Slot
from tidemill.worker.machine.stop import Stop

SMALL = {"cpus": 0.25, "memory_mib": 64}


class Killed(BaseException):
    """The worker is dead: nothing is written any more."""


class PanicException(BaseException):
    """The exception that a panic in a Rust library raises."""


class Queue(Source):
    """Hands out chunks until they are acknowledged, on whichever worker.

    Args:
        chunks: Jobs and chunks.
        many_jobs: Whether a worker takes them all; otherwise each worker takes one, like a child of an array.
    """

    def __init__(self, *chunks: Submitted, many_jobs: bool = True, one_each: bool = False) -> None:
        super().__init__()
        self.many_jobs, self._one_each = many_jobs, one_each
        self.open = [(job, number) for number, job in enumerate(chunks)]
        self.deliveries: Counter[int] = Counter()
        self.held: dict[int, Lease] = {}
        self._waiting = list(self.open)

    def next_worker(self) -> None:
        """Deliver the last worker's chunks again."""
        self.held.clear()
        self._waiting = list(self.open)
        self.stopped, self._taken = False, 0

    _taken = 0
    dead = threading.Event()
    """Raised when the worker has died."""

    @property
    def exhausted(self) -> bool:
        if self.dead.is_set():
            raise Killed
        return self.stopped or not self.open or (self._one_each and self._taken > 0)

    def lease(self, wait_seconds: float) -> Lease | None:
        if not self._waiting:
            return None
        job, number = self._waiting.pop(0)
        self._taken += 1
        self.deliveries[number] += 1
        lease = Lease(job)
        lease.id = f"a{self.deliveries[number]}-{number}"
        lease.ack = lambda: self.open.remove((job, number))  # type: ignore[method-assign]
        lease.release = lambda: self._waiting.append((job, number))  # type: ignore[method-assign]
        self.held[number] = lease
        return lease


def by_item(job: Submitted) -> dict[int, str]:
    return {outcome.index: outcome.reason or outcome.status for outcome in job.ledger.outcomes()}


class TestUnforeseen:
    """An exception in a slot that nothing foresaw."""

    @pytest.mark.parametrize(
        "error",
        [
            OSError(5, "Input/output error"),
            ValueError("v"),
            RuntimeError("r"),
            UnicodeError("u"),
            MemoryError(),
            KeyError("k"),
            PanicException("p"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_it_is_a_death_of_its_item_alone(self, store: Store, serve: Any, error: BaseException):
        bad, other = Submitted(store, 4, resources=SMALL), Submitted(store, 2, resources=SMALL)

        def run(task: Task) -> str:
            if (task.job, task.item.index) == (bad.spec.job, 1):
                raise error
            return "succeeded"

        queue = Queue(bad, other)
        assert serve(queue, Runs(run)).run() is WorkerExit.DONE
        assert by_item(bad) == {0: "succeeded", 1: "poison", 2: "succeeded", 3: "succeeded"}
        assert by_item(other) == {0: "succeeded", 1: "succeeded"}
        assert queue.deliveries == {0: POISON_ATTEMPTS + 1, 1: 1}
        poison = next(outcome for outcome in bad.ledger.outcomes() if outcome.reason == "poison")
        assert type(error).__name__ in (poison.error or "")

    def test_the_child_of_an_array_ends_with_a_code_that_is_retried(self, store: Store, serve: Any):
        job = Submitted(store, 3)

        def run(task: Task) -> str:
            if task.item.index == 1:
                raise KeyError("k")
            return "succeeded"

        queue, codes = Queue(job, many_jobs=False, one_each=True), []
        while queue.open:
            queue.next_worker()
            codes.append(serve(queue, Runs(run), capacity=None).run())
        assert codes == [WorkerExit.BROKEN] * POISON_ATTEMPTS + [WorkerExit.DONE]
        assert by_item(job) == {0: "succeeded", 1: "poison", 2: "succeeded"}

    def test_what_had_finished_is_kept_and_what_runs_may_end(self, store: Store, serve: Any):
        job = Submitted(store, 3, resources=SMALL)
        failed = threading.Event()
        ran: Counter[int] = Counter()

        def run(task: Task) -> str:
            ran[task.item.index] += 1
            if task.item.index == 1 and not failed.is_set():
                failed.set()
                raise KeyError("k")
            if task.item.index == 2:
                assert failed.wait(60)
                time.sleep(0.05)
            return "succeeded"

        assert serve(Queue(job), Runs(run)).run() is WorkerExit.DONE
        assert set(by_item(job).values()) == {"succeeded"}
        assert ran == {0: 1, 1: 2, 2: 1}


def cut(store: Store, name: str) -> None:
    store.put(name, store.get(name)[:-3])


def part_of(store: Store, job: str) -> str:
    """The only part of a manifest."""
    (part,) = (name for name in store.list(f"{job}/manifest") if name.endswith(".zst"))
    return part


DAMAGES: dict[str, Callable[[Store, str], None]] = {
    "empty marker": lambda store, job: store.put(f"{job}/r0/attempts/0/a1-x", b""),
    "manifest's frame": lambda store, job: cut(store, part_of(store, job)),
    "manifest's index": lambda store, job: store.put(f"{job}/manifest/index", b"TMI1"),
    "manifest's part is gone": lambda store, job: store._backend.delete(part_of(store, job)),
    "progress": lambda store, job: (
        store.put(f"{job}/r0/attempts/0/a1-x", b'{"attempt":"a1-x","ended":"released"}'),
        store.put(f"{job}/r0/progress/0/a1-x.0.jsonl", b"{"),
    )[0],
    "record": lambda store, job: store.put(f"{job}/r0/done/0/0.jsonl", b""),
}


class TestDamaged:
    """Damaged data of one job ends that job."""

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_the_others_on_the_machine_go_on(self, store: Store, serve: Any, damage: str):
        bad, other = Submitted(store, resources=SMALL), Submitted(store, 2, resources=SMALL)
        DAMAGES[damage](store, f"jobs/{bad.spec.job}")
        started, judged = threading.Event(), threading.Event()

        def run(task: Task) -> str:
            started.set()
            assert judged.wait(60)
            return "succeeded"

        class AfterTheOther(Queue):
            def lease(self, wait_seconds: float) -> Lease | None:
                if self._taken == 1 and not started.is_set():
                    return None
                if self._taken == 2:
                    judged.set()
                return super().lease(wait_seconds)

        queue = AfterTheOther(other, bad)
        assert serve(queue, Runs(run)).run() is WorkerExit.DONE
        assert queue.deliveries == {0: 1, 1: 1}
        assert by_item(other) == {0: "succeeded", 1: "succeeded"}
        note = bad.ledger.cancellation(0)
        assert note is not None
        assert (note["by"], bad.spec.job in note["reason"] or "manifest" in note["reason"]) == ("worker", True)

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_child_of_an_array_is_not_tried_again(self, store: Store, serve: Any, damage: str):
        bad = Submitted(store)
        DAMAGES[damage](store, f"jobs/{bad.spec.job}")
        queue = Queue(bad, many_jobs=False, one_each=True)
        assert serve(queue, capacity=None).run() is WorkerExit.STOPPED
        assert bad.ledger.is_cancelled(0)

    @pytest.mark.parametrize("many_jobs", [True, False])
    def test_a_record_that_cannot_be_read_at_the_commit(self, store: Store, serve: Any, many_jobs: bool):
        job = Submitted(store)

        def run(task: Task) -> str:
            store.put(layout.done(task.job, 0, 0), b"{")
            return "succeeded"

        queue = Queue(job, many_jobs=many_jobs, one_each=not many_jobs)
        code = serve(queue, Runs(run), capacity=Capacity(1.0, 4096) if many_jobs else None).run()
        assert code is (WorkerExit.DONE if many_jobs else WorkerExit.STOPPED)
        assert job.ledger.is_cancelled(0)
        assert job.ledger.chunk(0, 0).progress() or not many_jobs

    def test_a_tombstone_that_cannot_be_read_cancels(self, store: Store, serve: Any):
        job = Submitted(store)
        store.put(layout.cancelled(job.spec.job), b"")
        queue, runs = Queue(job), Runs()
        assert serve(queue, runs).run() is WorkerExit.DONE
        assert (runs.ran, queue.open) == ([], [])

    def test_what_nothing_foresaw_of_a_chunk_ends_its_job_in_the_end(
        self, store: Store, serve: Any, monkeypatch: pytest.MonkeyPatch
    ):
        bad, other = Submitted(store), Submitted(store)
        opened = ChunkRun.open

        def open_(self: ChunkRun, slots: int) -> None:
            if self.job.id == bad.spec.job:
                raise ZeroDivisionError
            opened(self, slots)

        monkeypatch.setattr(ChunkRun, "open", open_)
        queue = Queue(bad, other)
        assert serve(queue).run() is WorkerExit.DONE
        assert by_item(other) == {0: "succeeded"}
        assert "ZeroDivisionError" in (bad.ledger.cancellation(0) or {})["reason"]


def test_a_cancel_keeps_what_had_finished(store: Store, serve: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidemill.worker.chunks.held_chunks.CANCEL_SECONDS", 3600.0)
    monkeypatch.setattr("tidemill.worker.chunks.held_chunks.CANCEL_SECONDS_LOCAL", 0.0)
    monkeypatch.setattr(chunk_module, "SAVE_SECONDS_LOCAL", 3600.0)
    job = Submitted(store, 5)

    def run(task: Task) -> str | None:
        if task.item.index < 3:
            return "succeeded"
        job.ledger.cancel()
        assert task.stop.wait(60)
        return None

    queue = Queue(job)
    assert serve(queue, Runs(run)).run() is WorkerExit.DONE
    assert (queue.open, sorted(job.ledger.chunk(0, 0).progress())) == ([], [0, 1, 2])


# ---- who is to blame for a death ---------------------------------------------------------------------------------


class Mortal:
    """A store as a worker sees it until the worker dies."""

    def __init__(self, store: Store, dead: threading.Event) -> None:
        self._store, self._dead = store, dead

    def __getattr__(self, name: str) -> Any:
        if self._dead.is_set():
            raise Killed
        return getattr(self._store, name)


class Hostile:
    """Items that take a moment, and some that kill the worker with everything that runs in it."""

    def __init__(self, killers: set[tuple[str, int]], seconds: float, dead: threading.Event) -> None:
        self._killers, self._seconds, self._dead = killers, seconds, dead
        self.wake: Callable[[], None] = lambda: None

    def run(self, tasks: Sequence[Task], slot: Slot, done: Callable[[Outcome], None]) -> None:
        for task in tasks:
            slot.current = task.item.index
            if (task.job, task.item.index) in self._killers:
                self._dead.wait(0.002)
                self._dead.set()
                self.wake()
            if self._dead.wait(self._seconds):
                raise Killed
            slot.current = None
            done(Outcome(index=task.item.index, uri=task.item.uri, status="succeeded", attempts=1))

    def close(self, slot: Slot) -> None: ...

    def most_ahead(self, slots: int) -> int:
        return 1

    def prefetch(self, task: Task) -> None: ...

    def forget(self, task: Task) -> None: ...


def deaths_until_done(
    lease: str, sizes: list[int], slots: int, killers: set[tuple[int, int]], seconds: float = 0.004
) -> int:
    """Run chunks of a job each on worker after worker until all are committed; returns how many workers died.

    Args:
        lease: ``pubsub``: a machine takes every chunk; ``array``: a worker a chunk; ``local``: a worker takes one after
            the other and has one slot.
        sizes: Items of each chunk.
        slots: Items side by side.
        killers: Chunk and item of those that kill their worker.
        seconds: How long the others take.
    """
    store = Store.open("memory://")
    share = {"cpus": 1 / slots, "memory_mib": 64}
    spec = {"resources": share} if lease == "pubsub" else {"slots": slots if lease == "array" else 1}
    jobs = [Submitted(store, size, **spec) for size in sizes]
    queue = Queue(*jobs, many_jobs=lease == "pubsub", one_each=lease == "array")
    bad = {(jobs[chunk].spec.job, item) for chunk, item in killers}
    bound = (POISON_ATTEMPTS + 3) * len(killers) + 2
    died = 0
    with TemporaryDirectory() as folder:
        while queue.open:
            queue.next_worker()
            queue.dead = dead = threading.Event()
            runs, scratch = Hostile(bad, seconds, dead), Scratch(Path(folder), f"w{died}", None)
            worker = Worker(
                store,
                queue,
                runs,  # type: ignore[arg-type]
                scratch=scratch,
                stop=Stop(),
                base_env={},
                slots=1 if lease == "local" else None,
                capacity=Capacity(1.0, 4096) if lease == "pubsub" else None,
            )
            mortal: Any = Mortal(store, dead)
            worker._leasing._store = worker._jobs._store = mortal
            runs.wake = worker._items.wake
            try:
                assert worker.run() is WorkerExit.DONE
            except Killed:
                died += 1
            finally:
                scratch.close()
            assert died <= bound, "a killer must be found out"
    for number, job in enumerate(jobs):
        expected = {i: "poison" if (number, i) in killers else "succeeded" for i in range(sizes[number])}
        assert by_item(job) == expected
    return died


@st.composite
def machines(draw: st.DrawFn) -> tuple[str, list[int], int, set[tuple[int, int]], float]:
    """A kind of lease, chunks, slots, killers, and how long the others take."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    items = [(chunk, item) for chunk, size in enumerate(sizes) for item in range(size)]
    killers = draw(st.sets(st.sampled_from(items), min_size=1, max_size=3))
    lease, slots = draw(st.sampled_from(["pubsub", "array", "local"])), draw(st.integers(1, 4))
    return lease, sizes, slots, killers, draw(st.sampled_from([0.001, 0.004, 0.02]))


class TestBlame:
    """Every killer ends as poison after a few deaths, and nothing else ever does."""

    @pytest.fixture(autouse=True)
    def dead_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A heartbeat is late for three minutes before its worker counts as dead; the next delivery comes later."""
        monkeypatch.setattr(attempts, "MISSED_BEATS", -1000)
        monkeypatch.setattr("tidemill.worker.loop.TICK_SECONDS", 0.01)

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(machines())
    def test_only_items_that_kill_their_worker_become_poison(
        self, machine: tuple[str, list[int], int, set[tuple[int, int]], float]
    ):
        deaths_until_done(*machine)

    @pytest.mark.parametrize(
        ("lease", "sizes", "slots", "killers", "most"),
        [
            ("local", [1], 1, {(0, 0)}, 4),
            ("array", [5], 1, {(0, 3)}, 4),
            ("array", [5], 2, {(0, 3)}, 5),
            ("pubsub", [1, 1], 2, {(0, 0)}, 6),
            ("local", [10], 1, {(0, 2), (0, 4), (0, 6), (0, 8)}, 13),
            ("array", [10], 1, {(0, 2), (0, 4), (0, 6), (0, 8)}, 13),
            ("pubsub", [10], 4, {(0, 2), (0, 4), (0, 6), (0, 8)}, 21),
        ],
    )
    def test_how_many_workers_they_take(
        self, lease: str, sizes: list[int], slots: int, killers: set[tuple[int, int]], most: int
    ):
        assert deaths_until_done(lease, sizes, slots, killers) <= most

    @pytest.mark.parametrize("broken", [None, "suspects keep company", "what waits is named"])
    def test_the_model_finds_what_is_broken(self, monkeypatch: pytest.MonkeyPatch, broken: str | None):
        write, open_ = attempts.MarkerWriter.write, ChunkRun.open
        if broken:
            # Every death is one of whatever the marker names.
            monkeypatch.setattr(attempts.MarkerWriter, "write", lambda *a, alone=False: write(*a, alone=True))
        if broken == "suspects keep company":
            monkeypatch.setattr(ChunkRun, "_needs_machine", lambda self, index: False)
        elif broken:

            def named(self: ChunkRun, slots: int) -> None:
                open_(self, slots)
                self.observers[-1].write({item.index for item in self.pending})

            monkeypatch.setattr(ChunkRun, "open", named)
            monkeypatch.setattr(ChunkRun, "pause", lambda self: None)
            monkeypatch.setattr(ChunkRun, "claims_machine", False)
        # Which items run side by side is a matter of threads: a mutant has more tries, and ends with the first find.
        runs = (deaths_until_done("pubsub", [1, 1], 4, {(0, 0)}, 0.05) for _ in range(40 if broken else 4))
        with pytest.raises(AssertionError) if broken else nullcontext():
            deque(runs, maxlen=0)
