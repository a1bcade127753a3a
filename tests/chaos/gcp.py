"""A chain of two jobs on GCP whose participants die between any two requests, by a seed.

Submitters, people who look, cancel, resume and retry with clocks that are wrong, the
reconciler, and workers that run chunks and tell the ends of jobs. Their code is real; the requests end in a folder and
in FakeGoogle, one participant after the other. What this cannot prove: how Google answers, and two at the same moment.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from components.services.pubsub.reconciler_function.chains import CLIENT_SECONDS, release
from components.services.pubsub.reconciler_function.cloud import Cloud
from tests.unit.client.rounds.test_predecessors_gcp import TOPIC, Answer, Google
from tests.unit.every_cloud import DyingError, GcpWorld, run_chunk
from tests.unit.google_fakes import FakeGoogle
from tests.unit.ledger.two_workers import OneLease
from tidemill import layout
from tidemill.client import Job, Pipeline
from tidemill.client.rounds import deliveries, enqueue, rounds
from tidemill.clouds.clock import CloudClock
from tidemill.clouds.gcp.account import GcpAccount
from tidemill.clouds.gcp.session import GoogleSession
from tidemill.ending import gate
from tidemill.errors import CallerError, TidemillError
from tidemill.ledger import Ledger
from tidemill.ledger.gate import begun_at
from tidemill.store import Store
from tidemill.worker.chunks import endings
from tidemill.worker.chunks.endings import Endings
from tidemill.worker.chunks.jobs import LeasedJob

ONCALL = "projects/vision-dev-1/topics/oncall"
ITEMS, CHUNK = 4, 2
NOW = time.time
SKEWS = (0.0, 0.0, 600.0, -600.0)
MOST_STEPS = 12
"""A participant that is to die does so within so many steps, or not at all."""


class Mortal:
    """Counts the steps of whoever acts, and ends it just before or just after one of them.

    A step is a write to the store or a request. From the death on, nothing that it does has an effect.
    """

    def __init__(self) -> None:
        self.left: int | None = None
        self.after = False

    def of(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **more: Any) -> Any:
            if self.left is None:
                return call(*args, **more)
            self.left -= 1
            if self.left < 0 or (self.left == 0 and not self.after):
                raise DyingError
            answer = call(*args, **more)
            if self.left == 0:
                raise DyingError
            return answer

        return step


@dataclass
class Lives:
    """What some lives of the chain have shown."""

    lives: int = 0
    events: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def made_session(pipeline: Pipeline) -> GoogleSession:
    """The session of a pipeline's calls."""
    account = pipeline.site.account
    assert isinstance(account, GcpAccount)
    return account.session


class Clocked(Google):
    """Google, whose answers tell its own time."""

    def request(self, method: str, url: str, **more: Any) -> Answer:
        answer = super().request(method, url, **more)
        answer.headers["Date"] = formatdate(self.world.google.now, usegmt=True)
        return answer


class Life:
    """A chain from its submits to its end."""

    def __init__(self, folder: Path, seed: int, seen: Lives, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dice, self.seen, self.seed = random.Random(seed), seen, seed
        self.world = GcpWorld(folder, monkeypatch)
        made = self.world.pipeline.descriptor.model_copy(update={"max_spec": 5, "channels": {"oncall": ONCALL}})
        self.pipeline = self.world.pipeline = Pipeline(
            made, self.world.pipeline.store, self.world.pipeline.site.backend("cpu")
        )
        self.session = made_session(self.pipeline)
        self.google, self.mortal, self.ahead = Clocked(self.world), Mortal(), 0.0
        self.told: Counter[str] = Counter()
        self.pipeline.site.account.publish = lambda topic, subject, text, fields: self._take(fields["id"])  # type: ignore[method-assign]
        for owner, name in ((Store, "put"), (Store, "create"), (FakeGoogle, "send"), (Clocked, "request")):
            monkeypatch.setattr(owner, name, self.mortal.of(getattr(owner, name)))
        self.dead_tellers: Counter[str] = Counter()

    def _take(self, id_: str) -> None:
        self.told[id_] += 1

    # ---- who acts -----------------------------------------------------------------------------------------------

    def act(self, name: str, do: Callable[[], object], *, dies: bool) -> None:
        """Let somebody do something, and perhaps die."""
        self.mortal.left = self.dice.randrange(1, MOST_STEPS) if dies else None
        self.mortal.after = self.dice.random() < 0.5
        claims, now = self._claims(), NOW() + self.ahead
        self.world.google.now, skew = now, self.dice.choice(SKEWS)
        # Another process, which has heard nothing.
        self.session.clock = self.pipeline.site.account.clock = CloudClock()
        with patch.object(time, "time", lambda: now + skew), suppress(TidemillError), suppress(DyingError):
            do()
        died = self.mortal.left is not None and self.mortal.left <= 0
        self.mortal.left = None
        self.seen.events[f"{name}{' died' if died else ''}"] += 1
        if died:
            self.dead_tellers.update(self._claims() - claims)

    def _claims(self) -> Counter[str]:
        """Claims to tell each round's end."""
        found: Counter[str] = Counter()
        for job in self.jobs().values():
            for name in self.pipeline.store.list(layout.told(job.id)):
                number, mark, _ = name.rpartition("/")[2].partition("~")
                found[f"{job.id}/{number}"] += bool(mark)
        return found

    def jobs(self) -> dict[str, Job]:
        found = {}
        for name in ("first", "second"):
            with suppress(CallerError):
                found[name] = self.pipeline.job(name)
        return found

    def submit(self, name: str) -> Job:
        more: dict[str, Any] = {"after": ["first"]} if name == "second" else {}
        items = [f"gs://raw/{number}.jpg" for number in range(ITEMS)]
        return self.pipeline.submit(["p"], items, queue="cpu", name=name, chunk_size=CHUNK, notify="oncall", **more)

    def reconcile(self) -> None:
        _, failures = release(Cloud("p", "r", "store", self.google, pause=lambda _: None), [TOPIC])
        self.seen.wrong += [f"{self.seed}: the reconciler says {text}" for text in failures]

    def work(self, fails: float) -> None:
        """Workers take what there is, in any order; one that dies has not acknowledged its chunk."""
        queue = self.world.google.messages[self.world.subscription]
        for message in self.dice.sample(queue, self.dice.randrange(len(queue) + 1)):
            job, number, chunk = (message.attributes[key] for key in ("job", "round", "chunk"))
            self._run(job, int(number), int(chunk), fails)
            queue.remove(message)

    def _run(self, job: str, number: int, chunk: int, fails: float) -> None:
        store = self.pipeline.store
        ledger, tells = Ledger(store, job), Endings(store, lambda topic, message: self._take(message.id))
        lease = OneLease(job, 1)
        lease.round = number
        if ledger.is_cancelled(number):
            tells.cancelled(job)
        else:
            if job == self.jobs()["second"].id and begun_at(store, ledger.spec()) is None:
                self.seen.wrong.append(f"{self.seed}: chunk {chunk} of the second job was delivered before it began")
            if chunk not in ledger.done_chunks(number):
                failing = [item for item in range(ITEMS) if self.dice.random() < fails]
                run_chunk(self.pipeline, job, number, chunk, failing)
            tells.committed(LeasedJob(store, lease), chunk)
        tells._wanted.put(None)
        if tells._thread:
            tells._thread.join()
        if self.mortal.left is not None and self.mortal.left <= 0:
            raise DyingError

    # ---- its course ---------------------------------------------------------------------------------------------

    def live(self, steps: int) -> None:
        for name in ("first", "second"):
            while name not in self.jobs():
                self.act(f"submit {name}", lambda name=name: self.submit(name), dies=self.dice.random() < 0.8)
        acts: list[tuple[str, Callable[[], object]]] = [
            ("reconcile", self.reconcile),
            ("work", lambda: self.work(0.2)),
            *((verb, lambda verb=verb: self._type(verb)) for verb in ("status", "cancel", "resume", "retry", "submit")),
        ]
        for _ in range(steps):
            name, do = self.dice.choice([*acts[:2] * 2, *acts])
            self.act(name, do, dies=self.dice.random() < 0.5)
        self._end()

    def _type(self, verb: str) -> None:
        name = self.dice.choice(["first", "second"])
        self.submit(name) if verb == "submit" else getattr(self.jobs()[name], verb)()

    def _end(self) -> None:
        """Somebody continues what was cancelled, and leaves. The rest is the reconciler's and the workers'."""
        for _ in range(3):
            for name in ("first", "second"):
                self.act("the last one", self.jobs()[name].resume, dies=False)
                for _ in range(3):
                    self.ahead += CLIENT_SECONDS + 1
                    self.act("reconcile", self.reconcile, dies=False)
                    while self.world.google.messages[self.world.subscription]:
                        self.act("work", lambda: self.work(0.0), dies=False)
        for name, job in self.jobs().items():
            self._check(name, job)
        left = list(self.pipeline.store.list(layout.FLEET_HELD))
        self.check(not left, f"{left} still waits")

    def check(self, good: bool, what: str) -> None:
        if not good:
            self.seen.wrong.append(f"{self.seed}: {what}")

    def _check(self, name: str, job: Job) -> None:
        ledger = Ledger(self.pipeline.store, job.id)
        counts = ledger.counts()
        self.check(counts.finished, f"{counts.remaining} items of {name} are lost")
        times = Counter(outcome.index for outcome in ledger.outcomes())
        self.check(times == dict.fromkeys(range(ITEMS), 1), f"outcomes of {name}: {dict(times)}")
        newest = f"{job.id}/r{counts.rounds - 1}"
        for id_, copies in self.told.items():
            dead = self.dead_tellers[id_]
            self.check(id_.partition("/")[0] != job.id or copies <= 1 + dead, f"{id_} was told {copies} times")
        told = self.told[newest] >= 1 or self.dead_tellers[newest] >= gate.TELLERS
        self.check(told, f"the end {newest} was not told")


def run(folder: Path, seed: int, lives: int, steps: int = 14) -> Lives:
    """Some lives, each with a seed of its own."""
    seen, hook = Lives(lives), threading.excepthook
    threading.excepthook = lambda args: None if args.exc_type is DyingError else hook(args)
    try:
        for number in range(lives):
            with pytest.MonkeyPatch.context() as patched:
                # Google tells whole seconds, and the impatient wait for a tenth.
                patched.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -20)
                for module in (enqueue, rounds):
                    patched.setattr(module, "LOOK_SECONDS", 0)
                patched.setattr(endings, "LOOK_SECONDS", 0.001)
                # One participant after the other: whoever claimed and has not sent is dead.
                patched.setattr(gate, "TELLER_SECONDS", 0.0)
                patched.setattr(os, "fsync", lambda descriptor: None)
                Life(folder / str(number), seed * 1_000_000 + number, seen, patched).live(steps)
    finally:
        threading.excepthook = hook
    return seen
