"""What a worker's loop runs on where nothing is real: jobs in memory, leases that note what becomes of them, programs
that are functions of a test, and a clock that a test turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.stored import submitted, write_round
from tidemill.job import CostLimit
from tidemill.ledger import Ledger, Outcome, Round, RoundArray
from tidemill.ledger.digest import UNKNOWN, RanOn
from tidemill.services.batch.lease.array import ArrayLease
from tidemill.store import Store
from tidemill.worker.items.task import Task
from tidemill.worker.loop import Worker
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.slots import Slot
from tidemill.worker.machine.stop import Stop, StopReason


class Clock:
    """A clock that stands still until a test turns it."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Lease:
    """A lease that notes what becomes of it."""

    def __init__(self, job: Submitted, number: int = 0, chunk: int = 0) -> None:
        self.job, self.round, self._chunk = job.spec.job, number, chunk
        self.job_sha256: str | None = job.job_sha256
        self.round_sha256: str | None = job.rounds[number]
        self.id, self.delivery = f"a1-{id(self):x}", 1
        self.backend: dict[str, Any] = {}
        self.ended: list[str] = []

    def chunk(self, round_: Round) -> int:
        return self._chunk

    def extend(self) -> None:
        pass

    def progressed(self) -> None:
        pass

    def ack(self) -> None:
        self.ended.append("ack")

    def release(self) -> None:
        self.ended.append("release")

    def abandon(self) -> None:
        self.ended.append("abandon")


class Source:
    """Hands out leases; what is released comes again when the test wants so."""

    many_jobs = True

    def __init__(self, *leases: Lease, again: bool = False, endless: bool = False) -> None:
        self.waiting = list(leases)
        self.given: list[Lease] = []
        self.stopped = self.closed = False
        self._again, self._endless = again, endless

    @property
    def exhausted(self) -> bool:
        if self._again and self.given and self.given[-1].ended[-1:] == ["release"]:
            self.waiting.append(self.given.pop())
        return self.stopped or not (self.waiting or self._endless)

    def lease(self, wait_seconds: float) -> Lease | None:
        if not self.waiting:
            return None
        self.given.append(self.waiting.pop(0))
        return self.given[-1]

    def end(self) -> None:
        self.stopped = True

    def close(self) -> None:
        self.closed = True


class Runs:
    """Runs items by a function: the outcome's status, or None for an item that its job's end interrupts."""

    def __init__(self, run: Callable[[Task], str | None] = lambda task: "succeeded") -> None:
        self._run = run
        self.ran: list[tuple[str, int]] = []

    def run(self, tasks: Sequence[Task], slot: Slot, done: Callable[[Outcome], None]) -> None:
        for task in tasks:
            slot.current = task.item.index
            self.ran.append((task.job, task.item.index))
            status = self._run(task)
            if status is None:
                return
            slot.current = None
            reason = None if status == "succeeded" else status
            how: Any = "failed" if reason else "succeeded"
            done(Outcome(index=task.item.index, uri=task.item.uri, status=how, reason=reason, attempts=1))

    def close(self, slot: Slot) -> None:
        pass

    def most_ahead(self, slots: int) -> int:
        return 1

    def prefetch(self, task: Task) -> None:
        pass

    def forget(self, task: Task) -> None:
        pass


class Submitted:
    """A job in a store: one chunk, and the digests of its rounds."""

    def __init__(self, store: Store, items: int = 1, **spec: Any) -> None:
        job = submitted(store, [f"u{n}" for n in range(items)], **spec)
        self.spec, self.ledger, self.job_sha256, self.rounds = job.spec, job.ledger, job.job_sha256, [job.round_sha256]

    def another_round(self, **more: Any) -> int:
        number = len(self.rounds)
        arrays = [RoundArray(name=f"a{number}", first=0, count=1)]
        self.rounds.append(write_round(self.ledger, Round(round=number, arrays=arrays, **more)))
        return number


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
    store = Store.open("memory://")
    job = submitted(store, items, chunk_size, limit=limit)
    env = {
        "TIDEMILL_JOB": job.spec.job,
        "TIDEMILL_ROUND": "0",
        "TIDEMILL_ARRAY": "0",
        "TIDEMILL_JOB_SHA256": job.job_sha256,
        "TIDEMILL_ROUND_SHA256": job.round_sha256,
        "AWS_BATCH_JOB_ID": "11111111-aaaa",
    }
    chunks = range(job.spec.chunks_total)
    leases: Any = Leases([{**env, "AWS_BATCH_JOB_ARRAY_INDEX": str(chunk)} for chunk in chunks])
    stop, scratch = Stop(), Scratch(folder, "w", None)
    programs: Any = runners(stop)
    try:
        yield loop(store, leases, programs, scratch=scratch, stop=stop, base_env={}, machine=machine), job.ledger
    finally:
        scratch.close()
