"""Several people and many workers on one job: watchers, retries, resumes, cancels and submits that are interrupted
between any two of their requests, and containers that die, come again, or continue after the cloud gave them up.

Each of them runs in a thread that stops before every request that matters and continues when hypothesis says so. The
cloud shows what it was handed late. What this cannot prove: how late a real cloud answers.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
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
from tests.unit.client_fakes import FakeArray, FakeBackend, belongs, descriptor, uris
from tests.unit.ledger.two_workers import OneLease, submit_at_once
from tests.unit.stateful import stateful
from tidemill.client import Pipeline
from tidemill.client.rounds import deliveries
from tidemill.client.watch import wait
from tidemill.descriptor import Queue
from tidemill.errors import CallerError
from tidemill.ledger import Ledger, Outcome
from tidemill.ledger.outcome_sources import ended_chunks
from tidemill.services.backend import Array, ArrayState, Shape
from tidemill.store import Store
from tidemill.worker.chunks.chunk import ChunkRun, LeasedJob

ITEMS, SIZE = 4, 2
SECONDS = 120.0
WHO = st.integers(0, 3)
VERBS = st.sampled_from(["wait", "wait", "resume", "retry", "retry", "retry one", "cancel", "submit"])


class KilledError(BaseException):
    """The process dies here."""


class Actor(threading.Thread):
    """A participant whose requests are made one by one."""

    def __init__(self, verb: str, act: Callable[[], Any]) -> None:
        super().__init__(name=verb, daemon=True)
        self.verb, self._act = verb, act
        self.before = "the beginning"
        self.error: BaseException | None = None
        self._killed = False
        self._go, self._stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.start()
        self._await()

    def run(self) -> None:
        try:
            self.pause("the beginning")
            self._act()
        except (KilledError, CallerError):
            pass
        except BaseException as error:
            self.error = error
        self.before = "nothing"
        self._stopped.release()

    def pause(self, before: str) -> None:
        """Stop before a request until it is allowed."""
        self.before = before
        self._stopped.release()
        self._go.acquire()
        if self._killed:
            raise KilledError

    def step(self, kill: bool = False) -> None:
        """Let it make its request, or end its process instead."""
        self._killed = kill
        self._go.release()
        self._await()

    def _await(self) -> None:
        assert self._stopped.acquire(timeout=SECONDS), f"{self.verb} hangs before {self.before}"
        if self.error:
            raise self.error

    @property
    def ended(self) -> bool:
        return self.before == "nothing"


def pause(before: str) -> None:
    if isinstance(actor := threading.current_thread(), Actor):
        actor.pause(before)


class LateCloud(FakeBackend):
    """A queue whose listings lag behind its submissions."""

    def __init__(self) -> None:
        super().__init__()
        self.late = False
        self.shown = 0

    def enqueue(self, shape: Shape, arrays: Sequence[Array]) -> None:
        for array in arrays:
            pause("enqueue")
            super().enqueue(shape, [array])

    def describe(self, queue: Queue, job: str, round_: int | None = None) -> list[ArrayState]:
        self.shown = self.shown if self.late else len(self.arrays)
        found = [self._state(a) for a in self.arrays[: self.shown] if belongs(a.array, job, round_)]
        pause("what follows a listing of the queue")
        return found

    def _state(self, fake: FakeArray) -> ArrayState:
        states = ["waiting" if state == "running" else state for state in fake.children]
        with patch.object(fake, "children", states):
            return super()._state(fake)

    def cancel(self, arrays: Sequence[ArrayState], reason: str) -> int:
        pause("cancel")
        return super().cancel(arrays, reason)


class Team(RuleBasedStateMachine):
    """One job, all its participants, and the conditions that hold after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.actors: list[Actor] = []
        self.children: dict[Actor, tuple[FakeArray, int]] = {}
        """Running containers, each with its array and the number of its child."""
        self.now = datetime.now(UTC)
        self.attempts = 0
        self.changed = self.young = False
        look, create, put = Ledger.listing, Store.create, Store.put

        def looked(ledger: Ledger) -> Any:
            found = look(ledger)
            pause("what follows a look")
            return found

        def created(store: Store, name: str, data: bytes) -> Any:
            if "/rounds/" in name or "/done/" in name or "cancelled" in name:
                pause(f"create {name}")
            self.changed = True
            self.young = self.young or "/rounds/" in name
            return create(store, name, data)

        def written(store: Store, name: str, data: bytes) -> None:
            if "/failed/" in name or "cancelled" in name:
                pause(f"put {name}")
            self.changed = True
            put(store, name, data)

        self.patches = [
            patch.object(Ledger, "listing", looked),
            patch.object(Store, "create", created),
            patch.object(Store, "put", written),
            patch.object(deliveries, "_young", lambda written, *_: written > self.now),
            patch.object(wait.time, "sleep", lambda seconds: pause("the next look")),
            patch.object(ThreadPoolExecutor, "submit", submit_at_once),
        ]
        for one in self.patches:
            one.start()

    def teardown(self) -> None:
        try:
            for actor in self.actors:
                while not actor.ended:
                    actor.step(kill=True)
        finally:
            for one in self.patches:
                one.stop()

    @initialize(
        begins=st.sampled_from(["new", "failures", "failures", "lost"]), verbs=st.lists(VERBS, min_size=2, max_size=3)
    )
    def submit(self, begins: str, verbs: list[str]) -> None:
        self.cloud = LateCloud()
        self.pipeline = Pipeline(descriptor(), Store.open("memory://"), self.cloud)
        self.id = self.pipeline.submit(["p"], uris(ITEMS), queue="cpu", name="t", chunk_size=SIZE).id
        self.ledger = Ledger(self.pipeline.store, self.id)
        if begins == "lost":
            self.cloud.arrays[0].children = ["failed"] * (ITEMS // SIZE)
        elif begins == "failures":
            self.cloud.run(self.pipeline, self.id, fail_items=[0, 1])
        if begins != "new":
            self.now, self.young = datetime.now(UTC), False
        for verb in verbs:
            self.somebody_types(verb)

    # ---- people -------------------------------------------------------------------------------------------------

    def _people(self) -> list[Actor]:
        return [actor for actor in self.actors if not actor.ended and actor not in self.children]

    @precondition(lambda self: len(self._people()) < 3)
    @rule(verb=VERBS)
    def somebody_types(self, verb: str) -> None:
        job = self.pipeline.job(self.id)
        act: dict[str, Callable[[], Any]] = {
            "wait": job.wait,
            "resume": job.resume,
            "retry": job.retry,
            "retry one": lambda: job.retry([0]),
            "cancel": job.cancel,
            "submit": lambda: self.pipeline.submit(["p"], uris(ITEMS), queue="cpu", name="t", chunk_size=SIZE),
        }
        self.actors.append(Actor(verb, act[verb]))

    @precondition(lambda self: self._people())
    @rule(who=WHO, steps=st.sampled_from([1, 2, 3, 5, 20]))
    def somebody_goes_on(self, who: int, steps: int) -> None:
        people = self._people()
        actor = people[who % len(people)]
        for _ in range(steps):
            if not actor.ended:
                actor.step()

    @precondition(lambda self: self._people())
    @rule(who=WHO)
    def somebody_closes_the_laptop(self, who: int) -> None:
        people = self._people()
        people[who % len(people)].step(kill=True)

    # ---- the cloud ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.cloud.late or self._people())
    @rule()
    def the_listing_falls_behind_or_catches_up(self) -> None:
        self.cloud.late = not self.cloud.late

    @precondition(lambda self: self.young and all(actor.verb == "wait" for actor in self._people()))
    @rule()
    def minutes_pass(self) -> None:
        """Pending enqueues have happened, and listings show them. No actor sleeps for minutes between
        a listing of the queue and what follows it."""
        for actor in self._people():
            while not actor.ended and actor.before != "the next look":
                actor.step()
        self.cloud.late = self.young = False
        self.cloud.shown = len(self.cloud.arrays)
        self.now = datetime.now(UTC)

    def _waiting(self) -> Iterator[tuple[FakeArray, int]]:
        for fake in self.cloud.arrays:
            for child, state in enumerate(fake.children):
                if state == "waiting":
                    yield fake, child

    @precondition(lambda self: any(self._waiting()))
    @rule(which=WHO, fails=st.sets(st.integers(0, ITEMS - 1)), steps=st.sampled_from([0, 1, 2, 9, 9]))
    def a_container_starts(self, which: int, fails: set[int], steps: int) -> None:
        waiting = list(self._waiting())
        fake, child = waiting[which % len(waiting)]
        fake.children[child] = "running"
        actor = Actor("container", lambda: self._work(fake, child, fails))
        self.actors.append(actor)
        self.children[actor] = (fake, child)
        self._step(actor, 1 + steps)

    def _work(self, fake: FakeArray, child: int, fails: set[int]) -> None:
        """A worker's steps: check whether the job is cancelled, run the rest of the chunk, and commit."""
        self.attempts += 1
        lease = OneLease(self.id, self.attempts)
        lease.round, lease.chunk = fake.array.address.round, lambda round_: fake.array.chunks[child]  # type: ignore
        if self.ledger.is_cancelled(lease.round):
            raise KilledError
        run = ChunkRun(LeasedJob(self.pipeline.store, lease), lease)
        run.open(1)
        if run.settled:
            return
        while run.pending:
            [item] = run.take()
            failed = item.index in fails
            run.finished(
                Outcome(index=item.index, uri=item.uri, status="failed" if failed else "succeeded", attempts=1)
            )
        run.commit()

    def _containers(self) -> list[Actor]:
        return [actor for actor in self.children if not actor.ended]

    def _step(self, actor: Actor, steps: int) -> None:
        for _ in range(steps):
            if not actor.ended:
                actor.step()
        fake, child = self.children[actor]
        if actor.ended and fake.children[child] == "running":
            done = fake.array.chunks[child] in self.ledger.done_chunks(_round(fake))
            fake.children[child] = "succeeded" if done else "failed"

    @precondition(lambda self: self._containers())
    @rule(which=WHO, steps=st.integers(1, 3))
    def a_container_goes_on(self, which: int, steps: int) -> None:
        containers = self._containers()
        self._step(containers[which % len(containers)], steps)

    @precondition(lambda self: self._containers())
    @rule(which=WHO, then=st.sampled_from(["waiting", "failed", "failed"]), dies=st.booleans())
    def a_machine_is_taken_away(self, which: int, then: str, dies: bool) -> None:
        """The cloud starts the child again, or has done so often enough. A machine that it has only lost sight of goes
        on."""
        containers = self._containers()
        actor = containers[which % len(containers)]
        fake, child = self.children[actor]
        if dies or then == "waiting":
            actor.step(kill=True)
        if fake.children[child] == "running":
            fake.children[child] = then

    # ---- what holds ---------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_paid_for_twice(self) -> None:
        """A chunk that is not done has at most one delivery to come, except for simultaneous twin submits."""
        wanted = Counter[int]()
        seen = set[str]()
        for fake in self.cloud.arrays if hasattr(self, "cloud") else ():
            number = _round(fake)
            if fake.array.name in seen or self.ledger.is_cancelled(number):
                continue
            seen.add(fake.array.name)
            done = self.ledger.done_chunks(number)
            for chunk, state in zip(fake.array.chunks, fake.children, strict=True):
                if state in ("waiting", "running") and chunk not in done:
                    wanted[chunk] += 1
        assert all(count == 1 for count in wanted.values()), f"chunks are enqueued twice: {wanted}"

    @invariant()
    def status_says_what_the_records_say(self) -> None:
        if not self.changed or not hasattr(self, "ledger"):
            return
        self.changed = False
        found = ended_chunks(self.pipeline.store, self.id, self.ledger.rounds(), self.ledger.done_at)
        outcomes = [one for chunk, ended in found.items() for one in self.ledger.merged(chunk, ended.rounds)]
        assert {one.index for one in outcomes} <= {one.index for one in self.ledger.outcomes()}
        failed = sum(outcome.status == "failed" for outcome in outcomes)
        counts = Ledger(self.pipeline.store, self.id).counts()
        assert (counts.failed, counts.succeeded) == (failed, len(outcomes) - failed)


def _round(fake: FakeArray) -> int:
    return fake.array.address.round


class Watchers(Team):
    """Two watchers of a job that has lost everything: chance alone seldom finds them."""

    @initialize()
    def submit(self) -> None:  # type: ignore[override]
        super().submit("lost", ["wait", "wait"])


TestTeam = Team.TestCase
TestTeam.settings = stateful(examples=60, steps=40)


@pytest.mark.parametrize(
    ("mutant", "people", "start"),
    [
        (jobs.two_watchers, Watchers, 5),
        (jobs.stale_plans, Team, 7),
        (jobs.marker_after_record, Team, 1),
        (jobs.impatient_resume, Team, 8),
    ],
)
def test_it_finds_what_is_broken(mutant, people, start):
    """From each start a few random walks meet the mutant; most other starts need some of the 600."""
    many = settings(TestTeam.settings, phases=[Phase.generate], max_examples=600, print_blob=False)
    walks = seed(start)(type("Walks", (people,), {}))
    with pytest.raises(AssertionError):
        run_state_machine_as_test(walks, settings=many)
