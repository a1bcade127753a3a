"""More memory at the next attempt, on machines and in containers. Programs are simulated: they say how much they need
and how long they take, so that the machine time is counted exactly. All else is the worker's own."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.stored import StoredJob, submitted
from tests.unit.client_fakes import pipeline
from tests.unit.worker.fakes import Leases
from tidemill.descriptor import SPEC_VERSION, Resources
from tidemill.errors import CallerError
from tidemill.ledger import Ledger
from tidemill.machine import Capacity
from tidemill.store import Store, Stores
from tidemill.worker.items import run_item
from tidemill.worker.items.runners import Runners
from tidemill.worker.items.staging import Staging
from tidemill.worker.loop import Worker
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.stop import Stop
from tidemill.worker.programs.process import ProgramExit

UNIT = 1024
MACHINE = Capacity(4.0, 16 * UNIT + 96)
RAMP = 0.1
"""Part of its time in which a program takes its memory."""
NEEDS = [1 + n % 16 for n in range(100)]
random.Random(24).shuffle(NEEDS)


class Programs:
    """In place of `run_program`: a program whose item says how many units of memory it needs, for one second."""

    def __init__(self) -> None:
        self.tried: dict[int, list[float]] = defaultdict(list)
        self.used = self.known = 0.0
        self._lock, self._at_work = threading.Lock(), 0.0
        self.most = 0.0

    def __call__(self, programs: Any, command: list[str], *, limits: Any, **_: Any) -> ProgramExit:
        item, need = int(command[1]), float(command[2]) * UNIT - 96
        limit = limits.memory_mib
        with self._lock:
            self.tried[item].append(limit)
            self._at_work += limit
            self.most = max(self.most, self._at_work)
        fits = limit >= need
        seconds = 1.0 if fits else RAMP * limit / need
        with self._lock:
            self._at_work -= limit
            self.used += seconds * share(limit)
            self.known += share(need) if fits else 0.0
        return ProgramExit(None if fits else "memory", 0 if fits else -9, seconds, seconds, min(limit, need))


def share(memory_mib: float) -> float:
    """The part of a machine that an item takes."""
    return max(1 / MACHINE.cpus, memory_mib / MACHINE.memory_mib)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = Programs()
    monkeypatch.setattr(run_item, "run_program", made)
    return made


class World:
    """Workers with the real runners, each in a folder of its own."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self._folder, self._made = store, folder, 0

    def work(self, source: Any, **options: Any) -> None:
        self._made += 1
        stop, scratch = Stop(), Scratch(self._folder, f"w{self._made}", None)
        staging = Staging(Stores(self.store), scratch)
        try:
            runners = Runners(staging, scratch, stop)
            Worker(self.store, source, runners, scratch=scratch, stop=stop, base_env={}, **options).run()
        finally:
            staging.close()
            scratch.close()


def chunks_of(job: StoredJob) -> Leases:
    return Leases([{"TIDEMILL_JOB": job.spec.job, "TIDEMILL_ROUND": "0", "TIDEMILL_ROUND_SHA256": job.round_sha256}])


ASKED: dict[str, Any] = {"command": ["p", "{index}", "{uri}"], "resources": Resources(cpus=1, memory_mib=UNIT)}


def test_on_a_machine_all_succeed_at_little_more_than_the_machine_time_of_knowing(
    store: Store, tmp_path: Path, programs: Programs
):
    asked = {"memory_max_mib": 16 * UNIT, "spec_version": 8, "output": tmp_path.as_uri(), **ASKED}
    job = submitted(store, [str(need) for need in NEEDS], **asked)
    World(store, tmp_path).work(chunks_of(job), capacity=MACHINE)
    outcomes = {outcome.index: outcome for outcome in job.ledger.outcomes()}
    assert [outcomes[n].status for n in range(100)] == ["succeeded"] * 100
    assert programs.used <= 1.3 * programs.known
    assert programs.most <= MACHINE.memory_mib
    given = [1 << (need - 1).bit_length() for need in NEEDS]
    assert [outcomes[n].memory_mib or UNIT for n in range(100)] == [units * UNIT for units in given]
    assert [outcomes[n].attempts for n in range(100)] == [units.bit_length() for units in given]


def test_a_container_grows_an_item_into_its_other_slots_and_no_further(
    store: Store, tmp_path: Path, programs: Programs
):
    asked = {"memory_max_mib": 16 * UNIT, "slots": 4, "spec_version": 8, "output": tmp_path.as_uri(), **ASKED}
    job = submitted(store, ["1", "3", "5", "1"], **asked)
    World(store, tmp_path).work(chunks_of(job))
    outcomes = list(job.ledger.outcomes())
    assert [(one.status, one.reason, one.memory_mib) for one in outcomes] == [
        ("succeeded", None, None),
        ("succeeded", None, 4 * UNIT),
        ("failed", "memory", 4 * UNIT),
        ("succeeded", None, None),
    ]
    assert programs.most <= 4 * UNIT


def test_without_a_maximum_nothing_grows(store: Store, tmp_path: Path, programs: Programs, monkeypatch: Any):
    monkeypatch.setattr(run_item, "pause_before", lambda *_: 0.0)
    job = submitted(store, ["2"], attempts=3, **ASKED)
    World(store, tmp_path).work(chunks_of(job), capacity=MACHINE)
    (outcome,) = job.ledger.outcomes()
    assert (outcome.reason, outcome.memory_mib, len(set(programs.tried[0])), outcome.attempts) == ("memory", None, 1, 3)


def test_in_containers_the_next_round_has_twice_as_much(tmp_path: Path, programs: Programs):
    target, backend = pipeline(max_spec=SPEC_VERSION)
    world = World(target.store, tmp_path)

    def work(_: object) -> None:
        for fake in backend.arrays:
            at = fake.array.address
            env = {
                "TIDEMILL_JOB": at.job,
                "TIDEMILL_ROUND": str(at.round),
                "TIDEMILL_ARRAY": str(at.array),
                "TIDEMILL_ROUND_SHA256": at.round_sha256,
            }
            for child in [n for n, state in enumerate(fake.children) if state == "waiting"]:
                world.work(Leases([{**env, "AWS_BATCH_JOB_ARRAY_INDEX": str(child)}]))
                fake.children[child] = "succeeded"

    items = [str(need) for need in NEEDS]
    asked = {"memory": "1G", "memory_max": "16G", "attempts": 1, "output": tmp_path.as_uri()}
    job = target.submit(["p", "{index}", "{uri}"], items, queue="cpu", chunk_size=10, **asked)
    said: list[str] = []
    status = job.wait(poll_seconds=0.001, on_status=work, log=said.append)
    assert (status.state, status.succeeded) == ("succeeded", 100)
    # The largest item says nothing about what to ask for.
    assert job.status().suggestion is None
    assert not [advice for advice in job.report().advice if advice.rule == "memory"]
    assert programs.used <= 1.3 * programs.known
    assert [fake.shape.resources.memory_mib for fake in backend.arrays] == [UNIT << n for n in range(5)]
    assert said[-1] == f"{sum(need > 8 for need in NEEDS)} items ran out of memory: round 4 gives each 16384 MiB."
    assert [round_.memory_mib for round_ in Ledger(target.store, job.id).rounds()] == [None, 2048, 4096, 8192, 16384]
    # What runs once more has the memory with which it has succeeded.
    last = NEEDS.index(16)
    assert job.retry([last]).round == 5
    assert backend.arrays[-1].shape.resources.memory_mib == 16 * UNIT
    job.wait(poll_seconds=0.001, on_status=work)
    assert job.retry([last], memory="8G").round == 6
    assert backend.arrays[-1].shape.resources.memory_mib == 8 * UNIT
    job.wait(poll_seconds=0.001, on_status=work, repair=False)
    with pytest.raises(CallerError, match=r"^memory is 524288; it must be at least 64 MiB and no more than a machine"):
        job.retry(memory="512G")
