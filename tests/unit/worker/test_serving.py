"""The loop of a worker that serves many jobs, with simulated programs: how a job may affect the others."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import obstore
import pytest

from tests.conftest import PatchTime
from tests.unit.worker.fakes import Clock, Lease, Runs, Source, Submitted
from tidemill import layout
from tidemill.descriptor import Resources, WorkerExit
from tidemill.errors import ObjectNameError, StoreError
from tidemill.job import CostLimit
from tidemill.ledger import MarkerWriter
from tidemill.ledger.attempts import is_alive
from tidemill.ledger.ledger import START_FAILURES
from tidemill.ledger.spent_seconds import spent_seconds
from tidemill.machine import Capacity
from tidemill.store import Store
from tidemill.worker.chunks import running_items, spending
from tidemill.worker.chunks.chunk import ALONE_AFTER, ChunkRun
from tidemill.worker.chunks.jobs import KEPT_JOBS, LeasedJob
from tidemill.worker.chunks.observers import HEARTBEAT_SECONDS
from tidemill.worker.items.code import InstallError
from tidemill.worker.items.task import Task
from tidemill.worker.machine.stop import JobStop, Stop, StopReason


class TestJobs:
    def test_one_that_is_cancelled_is_acknowledged_and_the_next_runs(self, store: Store, serve: Any):
        cancelled, other = Submitted(store), Submitted(store)
        cancelled.ledger.cancel()
        source, runs = Source(Lease(cancelled), Lease(other)), Runs()
        assert serve(source, runs).run() is WorkerExit.DONE
        assert [lease.ended for lease in source.given] == [["ack"], ["ack"]]
        assert runs.ran == [(other.spec.job, 0)]
        assert source.closed

    def test_a_late_delivery_of_a_cancelled_round_is_not_run_after_a_resume(self, store: Store, serve: Any):
        job = Submitted(store)
        job.ledger.cancel()
        resumed = job.another_round()
        source, runs = Source(Lease(job, 0), Lease(job, resumed), Lease(job, 0)), Runs()
        assert serve(source, runs).run() is WorkerExit.DONE
        assert [lease.ended for lease in source.given] == [["ack"]] * 3
        assert runs.ran == [(job.spec.job, 0)]
        assert (job.ledger.done_chunks(0), job.ledger.done_chunks(resumed)) == (set(), {0})

    @pytest.mark.parametrize("late", [False, True])
    def test_one_that_should_have_started_earlier_ends(self, store: Store, serve: Any, late: bool):
        job = Submitted(store, start_within_seconds=3600, spec_version=8)
        number = job.another_round(created_at=datetime.now(UTC) - timedelta(seconds=3700 if late else 3500))
        source, runs = Source(Lease(job, number)), Runs()
        assert serve(source, runs).run() is WorkerExit.DONE
        assert len(runs.ran) == (0 if late else 1)
        assert (job.ledger.is_cancelled(number), source.given[0].ended) == (late, ["ack"])

    def test_one_that_never_starts_ends_alone(self, store: Store, serve: Any):
        broken, other = Submitted(store, START_FAILURES + 3), Submitted(store)
        source = Source(Lease(broken), Lease(other))
        runs = Runs(lambda task: "start" if task.job == broken.spec.job else "succeeded")
        assert serve(source, runs).run() is WorkerExit.DONE
        assert [lease.ended for lease in source.given] == [["ack"], ["ack"]]
        assert broken.ledger.is_cancelled(0)
        assert [job for job, _ in runs.ran] == [broken.spec.job] * START_FAILURES + [other.spec.job]
        assert broken.ledger.done_chunks(0) == set()
        assert not broken.ledger.chunk(0, 0).history().careful

    def test_inputs_of_the_next_chunk_are_fetched_while_one_ends(self, store: Store, serve: Any, monkeypatch: Any):
        monkeypatch.setattr(running_items, "AHEAD_SECONDS", 60.0)
        first, second = (Submitted(store, items, stage_input=True, spec_version=4) for items in (12, 3))
        begun: dict[tuple[str, int], int] = {}
        prepared = threading.Event()

        class Fetches(Runs):
            def most_ahead(self, slots: int) -> int:
                return 4

            def prefetch(self, task: Task) -> None:
                begun[task.job, task.item.index] = len(self.ran)
                if task.job == second.spec.job:
                    prepared.set()
                # What a slot has taken at once, and as many more.
                assert len(begun.keys() - set(self.ran)) <= 8

        def run(task: Task) -> str:
            time.sleep(0.02)
            # The second job is prepared before the first one ends.
            assert (task.job, task.item.index) != (first.spec.job, 11) or prepared.wait(60)
            return "succeeded"

        runs = Fetches(run)
        assert serve(Source(Lease(first), Lease(second)), runs).run() is WorkerExit.DONE
        assert len(runs.ran) == 15
        assert begun[second.spec.job, 0] <= 12

    @pytest.mark.parametrize("stages", [False, True])
    def test_one_whose_items_run_one_by_one_leaves_the_machine_to_others(self, store: Store, serve: Any, stages: bool):
        capped = Submitted(store, 6, max_parallel=1, stage_input=stages, spec_version=4)
        other = Submitted(store, 9)
        lock, running, together = threading.Lock(), [0], [0]
        others_first = threading.Event()

        def run(task: Task) -> str:
            if task.job == other.spec.job:
                others_first.set()
                return "succeeded"
            with lock:
                running[0] += 1
                together[0] = max(together[0], running[0])
            # The other job runs beside the first item.
            assert others_first.wait(60)
            time.sleep(0.01)
            with lock:
                running[0] -= 1
            return "succeeded"

        source, runs = Source(Lease(capped), Lease(other)), Runs(run)
        assert serve(source, runs, capacity=Capacity(4.0, 16_384)).run() is WorkerExit.DONE
        assert together == [1]
        assert len(runs.ran) == 15
        assert capped.ledger.done_chunks(0) == other.ledger.done_chunks(0) == {0}

    def test_one_that_passes_its_limit_ends_alone_while_an_item_runs(
        self, store: Store, serve: Any, monkeypatch: pytest.MonkeyPatch
    ):
        """The item would run for an hour: what it costs is seen before its end."""
        monkeypatch.setattr(spending, "FIRST_SECONDS", 0.05)
        limit = CostLimit(max_usd=0.01, usd_per_item_hour=3600)
        dear, other = Submitted(store, limit=limit), Submitted(store)

        def run(task: Task) -> str | None:
            if task.job == other.spec.job:
                return "succeeded"
            assert isinstance(task.stop, JobStop)
            assert task.stop.wait(60), "the job's end"
            return None

        source = Source(Lease(dear), Lease(other), Lease(dear))
        runs = Runs(run)
        assert serve(source, runs).run() is WorkerExit.DONE
        assert [lease.ended for lease in source.given] == [["ack"]] * 3
        assert [job for job, _ in runs.ran] == [dear.spec.job, other.spec.job]
        note = dear.ledger.cancellation(0)
        assert note is not None
        assert note["max_usd"] == 0.01
        assert dear.ledger.done_chunks(0) == set()
        assert spent_seconds(store, dear.spec.job, 1) >= 0.05

    def test_one_whose_packages_cannot_be_installed_ends_alone(self, store: Store, serve: Any):
        broken = Submitted(store)
        number = broken.another_round(code="0" * 64)
        source, runs = Source(Lease(broken, number), again=True), Runs()

        def ready(*_: Any) -> None:
            raise InstallError("pip: no such package")

        runs.codes = lambda store: SimpleNamespace(ready=ready)  # type: ignore[attr-defined]
        assert serve(source, runs).run() is WorkerExit.DONE
        assert source.given[-1].ended == ["release"] * (START_FAILURES - 1) + ["ack"]
        assert broken.ledger.is_cancelled(number)

    def test_while_ones_packages_are_installed_the_others_go_on(self, store: Store, serve: Any):
        other, shipped = Submitted(store, 2, resources={"cpus": 0.5, "memory_mib": 64}), Submitted(store)
        number = shipped.another_round(code="0" * 64)
        installing = threading.Event()

        def run(task: Task) -> str:
            assert task.job == shipped.spec.job or installing.wait(60)
            return "succeeded"

        def ready(*_: Any) -> Any:
            installing.set()
            deadline = time.monotonic() + 60
            while other.ledger.done_chunks(0) != {0}:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            return SimpleNamespace(spec=lambda spec: spec, environment=lambda env: env)

        source, runs = Source(Lease(other), Lease(shipped, number)), Runs(run)
        runs.codes = lambda store: SimpleNamespace(ready=ready)  # type: ignore[attr-defined]
        assert serve(source, runs, capacity=Capacity(2.0, 4096)).run() is WorkerExit.DONE
        assert [lease.ended for lease in source.given] == [["ack"], ["ack"]]
        assert shipped.ledger.done_chunks(number) == {0}

    def test_cancelled_in_the_middle_its_items_end_and_others_go_on(
        self, store: Store, serve: Any, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("tidemill.worker.chunks.held_chunks.CANCEL_SECONDS_LOCAL", 0.0)
        cancelled, other = Submitted(store, 3), Submitted(store)
        stop = Stop()

        def run(task: Task) -> str | None:
            if task.job == other.spec.job:
                return "succeeded"
            cancelled.ledger.cancel()
            assert task.stop.wait(60)
            return None

        source, runs = Source(Lease(cancelled), Lease(other)), Runs(run)
        assert serve(source, runs, stop=stop).run() is WorkerExit.DONE
        assert not stop.raised
        assert [lease.ended for lease in source.given] == [["ack"], ["ack"]]
        assert runs.ran == [(cancelled.spec.job, 0), (other.spec.job, 0)]

    def test_finished_ones_are_forgotten(self, store: Store, serve: Any):
        jobs = [Submitted(store) for _ in range(KEPT_JOBS + 5)]
        source = Source(*(Lease(job) for job in jobs))
        worker = serve(source)
        assert worker.run() is WorkerExit.DONE
        assert len(worker._jobs) <= KEPT_JOBS + 1
        assert all(job.ledger.done_chunks(0) == {0} for job in jobs)

    def test_a_store_out_of_reach_acknowledges_nothing(self, store: Store, serve: Any, monkeypatch: pytest.MonkeyPatch):
        job = Submitted(store)
        store_of_nobody = Store.open("memory://")

        def gone(*_: Any) -> None:
            raise StoreError("LIST of memory://jobs failed: no such bucket")

        monkeypatch.setattr(store_of_nobody, "page", gone)
        source = Source(Lease(job))
        worker = serve(source)
        worker._leasing._store = worker._jobs._store = store_of_nobody
        assert worker.run() is WorkerExit.STORE_UNAVAILABLE
        assert source.given[0].ended == []
        # Which gives back what is held.
        assert source.closed


class TestSuspects:
    def test_a_suspect_has_nothing_beside_it_in_the_end(self, store: Store, serve: Any):
        """Otherwise a long item of another chunk would die with it each time, and be taken for poison too."""
        small = {"cpus": 0.25, "memory_mib": 64}
        suspect, other, late = (Submitted(store, 2, resources=small) for _ in range(3))
        for attempt in range(ALONE_AFTER):
            suspect.ledger.chunk(0, 0).marker(f"dead{attempt}", 1, {}).write({0})
        source = Source(Lease(other), Lease(suspect), Lease(late))
        active: set[tuple[str, int]] = set()
        beside: list[set[tuple[str, int]]] = []
        changes = threading.Lock()

        def run(task: Task) -> str:
            me = (task.job, task.item.index)
            with changes:
                active.add(me)
                if me == (suspect.spec.job, 0):
                    beside.append(active - {me})
                    looked.set()
            if task.job == other.spec.job:
                # Until the suspect could have been started, and a little longer.
                assert leased.wait(60)
                looked.wait(0.2)
            with changes:
                if me != (suspect.spec.job, 0) and (suspect.spec.job, 0) in active:
                    beside.append({me})
                active.discard(me)
            return "succeeded"

        looked, leased = threading.Event(), threading.Event()
        runs = Runs(run)
        worker = serve(source, runs, capacity=Capacity(1.0, 4096))
        start = worker._items.start

        def started() -> None:
            start()
            if len(source.given) >= 2:
                leased.set()

        worker._items.start = started
        assert worker.run() is WorkerExit.DONE
        assert beside == [set()]
        assert [lease.ended for lease in source.given] == [["ack"]] * 3
        assert all(job.ledger.done_chunks(0) == {0} for job in (suspect, other, late))


class TestTheMachinesEnd:
    def test_an_item_that_may_outlast_the_machine_is_given_back(self, store: Store, serve: Any):
        source, runs = Source(Lease(Submitted(store, timeout_seconds=7200))), Runs()
        assert serve(source, runs, lasts=lambda seconds: seconds < 3600).run() is WorkerExit.DONE
        assert (source.given[0].ended, source.stopped, runs.ran) == (["release"], True, [])

    def test_an_item_with_state_runs_to_the_machines_end_and_is_released_there(self, store: Store, serve: Any):
        """Its time limit is 28 days, and the machine lasts an hour."""
        job, left, stop = Submitted(store, timeout_seconds=28 * 86_400, state={}, spec_version=4), [3600.0], Stop()

        def run(task: Task) -> None:
            left[0] = 60.0
            assert task.stop.wait(60)

        source, runs = Source(Lease(job)), Runs(run)
        worker = serve(source, runs, stop=stop, lasts=lambda seconds: seconds <= left[0])
        assert worker.run() is WorkerExit.RECLAIMED
        assert (source.given[0].ended, stop.reason) == (["release"], StopReason.AGE)
        assert runs.ran == [(job.spec.job, 0)]
        assert dict(job.ledger.chunk(0, 0).history().reclaims) == {0: 1}

    def test_in_the_middle_of_a_chunk_the_rest_is_given_back(self, store: Store, serve: Any):
        job, left = Submitted(store, 3), [10_000.0]

        def run(task: Task) -> str:
            left[0] = 0.0
            return "succeeded"

        source, runs = Source(Lease(job)), Runs(run)
        assert serve(source, runs, lasts=lambda seconds: seconds <= left[0]).run() is WorkerExit.DONE
        assert (source.given[0].ended, source.stopped) == (["release"], True)
        assert runs.ran == [(job.spec.job, 0)]
        assert sorted(job.ledger.chunk(0, 0).progress()) == [0]
        past = job.ledger.chunk(0, 0).history()
        assert (past.careful, dict(past.deaths), dict(past.reclaims)) == (False, {}, {})


class TestDrain:
    def test_chunks_are_given_back_side_by_side(self, store: Store, serve: Any, monkeypatch: pytest.MonkeyPatch):
        """Thirty seconds are the same for a machine with one chunk and with many."""
        jobs = [Submitted(store, resources={"cpus": 0.125, "memory_mib": 64}) for _ in range(8)]
        stop, together, running = Stop(), threading.Barrier(8, timeout=60), threading.Barrier(8, timeout=60)
        drained = MarkerWriter.drained

        def meet(self: MarkerWriter, *said: Any) -> None:
            together.wait()
            drained(self, *said)

        monkeypatch.setattr(MarkerWriter, "drained", meet)

        def run(task: Task) -> None:
            if running.wait() == 0:
                stop.set(StopReason.NOTICE)
            assert task.stop.wait(60)

        source = Source(*(Lease(job) for job in jobs), endless=True)
        assert serve(source, Runs(run), stop=stop).run() is WorkerExit.RECLAIMED
        assert [lease.ended for lease in source.given] == [["release"]] * 8
        assert [dict(job.ledger.chunk(0, 0).history().reclaims) for job in jobs] == [{0: 1}] * 8


class TestLeasingAhead:
    @pytest.mark.parametrize(("seconds", "wants"), [(0.0, False), (0.01, True), (4.9, True), (600.0, False)])
    def test_only_where_items_are_short(self, serve: Any, seconds: float, wants: bool):
        worker = serve(Source())
        assert worker._items.slots.take("j", Resources())
        worker._held._chunks = [
            SimpleNamespace(
                one_by_one=False, pending=[], claims_machine=False, job=SimpleNamespace(item_seconds=seconds)
            )
        ]
        assert worker._leasing.wants_more() is wants

    def test_a_free_slot_wants_a_chunk(self, serve: Any):
        assert serve(Source())._leasing.wants_more()


class TestHeartbeat:
    def run_of(self, store: Store, *, heartbeat: bool) -> tuple[Submitted, ChunkRun, str]:
        job = Submitted(store, 2)
        lease = Lease(job)
        run = ChunkRun(LeasedJob(store, lease), lease, many_jobs=heartbeat)
        run.open(1)
        return job, run, f"{layout.attempts(layout.ChunkKey(job.spec.job, 0, 0))}/{lease.id}"

    def test_it_is_written_once_a_minute(self, store: Store, clock: Clock, patch_time: PatchTime, monkeypatch: Any):
        patch_time(monotonic=clock)
        job, run, name = self.run_of(store, heartbeat=True)
        run.take()
        written: list[str] = []
        put = store.put
        monkeypatch.setattr(store, "put", lambda name, data: (written.append(name), put(name, data)))
        for _ in range(10 * int(HEARTBEAT_SECONDS)):
            clock.now += 1
            run.tick()
        assert 8 <= written.count(name) <= 10
        assert is_alive(json.loads(store.get(name)))
        # A worker that gets the chunk meanwhile blames no item.
        past = job.ledger.chunk(0, 0).history()
        assert (past.attempts, past.careful, dict(past.deaths)) == (1, False, {})

    def test_without_it_a_marker_is_written_when_it_changes(self, store: Store, clock: Clock, patch_time: PatchTime):
        patch_time(monotonic=clock)
        job, run, name = self.run_of(store, heartbeat=False)
        run.take()
        before = store.get(name)
        for _ in range(100):
            clock.now += 100
            run.tick()
        assert store.get(name) == before
        past = job.ledger.chunk(0, 0).history()
        assert (past.careful, dict(past.suspected), dict(past.deaths)) == (True, {0: 1}, {})

    @pytest.mark.parametrize(
        ("marker", "alive"),
        [
            ({"beats": 60.0, "age": 0, "ended": None}, True),
            ({"beats": 60.0, "age": 170, "ended": None}, True),
            ({"beats": 60.0, "age": 190, "ended": None}, False),
            ({"beats": 60.0, "age": -600, "ended": None}, True),
            ({"beats": 60.0, "age": 0, "ended": "drained"}, False),
            ({"age": 0, "ended": None}, False),
        ],
    )
    def test_an_attempt_lives_while_it_beats(self, marker: dict[str, Any], alive: bool):
        now = datetime(2026, 11, 21, tzinfo=UTC)
        at = (now - timedelta(seconds=marker.pop("age"))).isoformat()
        assert is_alive({**marker, "at": at}, now) is alive


def test_a_name_that_no_listing_takes_keeps_no_worker_from_the_others(store, serve, monkeypatch):
    """A chunk without its spec: the worker asks whether the store is there, and a program has put `jobs//x` there."""
    gone, other = Submitted(store), Submitted(store)
    first, second = Lease(gone), Lease(other)
    obstore.delete(store._backend, layout.spec(gone.spec.job))
    monkeypatch.setattr(store, "page", Mock(side_effect=ObjectNameError("the name 'jobs//x' cannot be read.")))
    serve(Source(first, second)).run()
    assert (first.ended, second.ended) == (["ack"], ["ack"])
