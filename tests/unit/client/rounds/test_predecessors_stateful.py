"""A chain of two jobs under random interleavings: the first is cancelled, retried, resumed and loses chunks, clients
die between any two requests, and containers of the second start whenever the queue lets them.

No item of the second job runs before the first was complete, and none is lost. Participants are those of
test_rounds_stateful.py. What this cannot prove: when AWS Batch starts a container.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.mutants import jobs
from tests.unit.client.rounds.test_predecessors import Batch
from tests.unit.client.rounds.test_rounds_stateful import Actor, pause
from tests.unit.client_fakes import descriptor, uris
from tests.unit.ledger.two_workers import OneLease, submit_at_once
from tests.unit.stateful import stateful
from tidemill.client import Job, Pipeline
from tidemill.client.rounds import deliveries, enqueue, rounds
from tidemill.client.watch import wait
from tidemill.errors import CallerError
from tidemill.ledger import Ledger, Outcome
from tidemill.ledger.gate import begun_at
from tidemill.manifest import read_chunk
from tidemill.services.backend import Array, Shape
from tidemill.store import Store
from tidemill.worker.chunks.jobs import LeasedJob

WHICH = st.integers(0, 3)


class SlowBatch(Batch):
    """A queue whose callers may die before each array."""

    def enqueue(self, shape: Shape, arrays: Sequence[Array]) -> None:
        for array in arrays:
            pause("enqueue")
            super().enqueue(shape, [array])


class Chain(RuleBasedStateMachine):
    """Two jobs, their participants, and what must hold when an item runs."""

    def __init__(self) -> None:
        super().__init__()
        self.actors: list[Actor] = []
        look, create = Ledger.listing, Store.create

        def looked(ledger: Ledger) -> Any:
            found = look(ledger)
            pause("what follows a look")
            return found

        def created(store: Store, name: str, data: bytes) -> Any:
            if name.endswith("/begun"):
                # Between the look and this create the other job may have got another round. It was complete.
                self.begun += 1
            if any(part in name for part in ("/rounds/", "/done/", "/begun", "cancelled")):
                pause(f"create {name}")
            return create(store, name, data)

        self.begun = 0
        self.patches = [
            patch.object(Ledger, "listing", looked),
            patch.object(Store, "create", created),
            patch.object(deliveries, "SUBMIT_GRACE_SECONDS", -1),
            *(patch.object(module, "LOOK_SECONDS", 0) for module in (enqueue, rounds)),
            patch.object(wait.time, "sleep", lambda seconds: pause("the next look")),
            patch.object(ThreadPoolExecutor, "submit", submit_at_once),
        ]
        for one in self.patches:
            one.start()

    def teardown(self) -> None:
        try:
            self.everybody_leaves()
            if hasattr(self, "pipeline"):
                self.it_can_be_finished()
        finally:
            for one in self.patches:
                one.stop()

    def everybody_leaves(self) -> None:
        for actor in self.actors:
            while not actor.ended:
                actor.step(kill=True)

    @initialize(success=st.booleans())
    def submit(self, success: bool) -> None:
        self.success = success
        self.cloud = SlowBatch()
        self.pipeline = Pipeline(descriptor(max_spec=4), Store.open("memory://"), self.cloud)
        self.first = self._submit("first").id
        self.second = self._submit("second").id
        self.ran: list[int] = []

    def _submit(self, name: str) -> Job:
        key = "after_success" if self.success else "after"
        more: dict[str, Any] = {key: ["first"]} if name == "second" else {}
        return self.pipeline.submit(["p"], uris(4), queue="cpu", name=name, chunk_size=2, **more)

    # ---- people -------------------------------------------------------------------------------------------------

    def _people(self) -> list[Actor]:
        return [actor for actor in self.actors if not actor.ended]

    @precondition(lambda self: len(self._people()) < 3)
    @rule(
        verb=st.sampled_from(["cancel", "resume", "retry", "wait", "status", "submit"]),
        name=st.sampled_from(["first", "first", "second"]),
        steps=st.sampled_from([1, 2, 4, 50]),
    )
    def somebody_types(self, verb: str, name: str, steps: int) -> None:
        job = self.pipeline.job(self.first if name == "first" else self.second)
        act: dict[str, Callable[[], Any]] = {
            "cancel": job.cancel,
            "resume": job.resume,
            "retry": job.retry,
            "wait": job.wait,
            "status": job.status,
            "submit": lambda: self._submit(name),
        }
        actor = Actor(verb, act[verb])
        self.actors.append(actor)
        self._step(actor, steps)

    def _step(self, actor: Actor, steps: int) -> None:
        for _ in range(steps):
            if not actor.ended:
                actor.step()
        self.cloud.settle()

    @precondition(lambda self: self._people())
    @rule(who=WHICH, steps=st.sampled_from([1, 2, 4, 20]), dies=st.booleans())
    def somebody_goes_on(self, who: int, steps: int, dies: bool) -> None:
        people = self._people()
        actor = people[who % len(people)]
        self._step(actor, steps)
        if dies and not actor.ended:
            actor.step(kill=True)

    # ---- the cloud ----------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(["first", "second"]), which=WHICH, fails=st.booleans(), lost=st.booleans())
    def a_container_runs(self, name: str, which: int, fails: bool, lost: bool) -> None:
        job = self.first if name == "first" else self.second
        startable = [
            (number, child)
            for number in self.cloud.startable(job)
            for child, state in enumerate(self.cloud.arrays[number].children)
            if state == "waiting"
        ]
        if startable:
            number, child = startable[which % len(startable)]
            self._work(number, child, fails=fails, lost=lost and name == "first")

    def _work(self, number: int, child: int, *, fails: bool = False, lost: bool = False) -> None:
        fake = self.cloud.arrays[number]
        chunk, job = fake.array.chunks[child], fake.array.address.job
        lease = OneLease(job, len(self.ran))
        lease.round, lease.chunk = fake.array.address.round, lambda round_: chunk  # type: ignore
        fake.children[child] = "failed"
        known = LeasedJob(self.pipeline.store, lease)
        if not lost and not known.ledger.is_cancelled(lease.round) and known.gate() is None:
            if job == self.second:
                assert begun_at(self.pipeline.store, known.spec), "an item runs before its job has begun"
                assert self.begun, "nobody has found the first job complete"
            items = read_chunk(self.pipeline.store, job, chunk)
            some = known.round.runs(chunk)
            chosen = [item for item in items if some is None or item.index in some]
            known.ledger.chunk(lease.round, chunk).commit("a", [_outcome(item, fails) for item in chosen])
            fake.children[child] = "succeeded"
        self.cloud.settle()

    @invariant()
    def nothing_has_begun_early(self) -> None:
        if not hasattr(self, "ran"):
            return
        spec = self.pipeline.job(self.second).spec
        if begun_at(self.pipeline.store, spec):
            first = Ledger(self.pipeline.store, self.first)
            done = set().union(*(first.done_chunks(each.round) for each in first.rounds()))
            assert done == {0, 1}, "the second job began before the first was complete"

    # ---- the end ------------------------------------------------------------------------------------------------

    def it_can_be_finished(self) -> None:
        """Somebody mends the first job, then continues the second: nothing is lost."""
        self._finish(self.first)
        if self.success and self.pipeline.job(self.first).progress().failed:
            self.pipeline.job(self.first).retry()
            self._finish(self.first)
        self._finish(self.second)
        counts = self.pipeline.job(self.second).progress()
        assert counts.finished, f"{counts.remaining} items of the second job are lost"

    def _finish(self, id_: str) -> None:
        job = self.pipeline.job(id_)
        for _ in range(8):
            if job.progress().finished:
                return
            try:
                job.resume()
            except CallerError as error:
                raise AssertionError(f"{id_} cannot be resumed: {error}") from None
            self._run_all(id_)
            job.status()
            self._run_all(id_)

    def _run_all(self, id_: str) -> None:
        while waiting_ := self.cloud.startable(id_):
            for number in waiting_:
                for child, state in enumerate(self.cloud.arrays[number].children):
                    if state == "waiting":
                        self._work(number, child)


def _outcome(item: Any, fails: bool) -> Outcome:
    return Outcome(index=item.index, uri=item.uri, status="failed" if fails else "succeeded", attempts=1)


TestChain = Chain.TestCase
TestChain.settings = stateful(examples=30, steps=25)


def test_it_finds_a_worker_that_does_not_look(monkeypatch):
    jobs.gate_left_open(monkeypatch)
    few = settings(TestChain.settings, max_examples=200, phases=[Phase.generate], derandomize=False)
    with pytest.raises(AssertionError, match="before"):
        run_state_machine_as_test(seed(3)(Chain), settings=few)
