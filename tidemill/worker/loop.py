"""The one loop of every backend: lease a chunk, run what is left of it, commit, acknowledge.

There is no barrier at a chunk's end: the next chunk is leased as soon as a slot would be empty. One thread (the
caller's) leases, reads and writes the ledger and starts items; each slot runs one item in a thread of its own.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from tidemill.descriptor import WorkerExit
from tidemill.errors import CallerError, StoreError
from tidemill.job import Item
from tidemill.ledger import Outcome
from tidemill.ledger.ledger import TamperedError, UnreadableError
from tidemill.store import Store
from tidemill.worker.capacity import Capacity
from tidemill.worker.chunk import ChunkRun, Job
from tidemill.worker.leases import Lease, LeaseSource
from tidemill.worker.output import say
from tidemill.worker.process import GRACE_SECONDS
from tidemill.worker.run_item import WORKER_MIB, Task
from tidemill.worker.runners import Runners
from tidemill.worker.scratch import Scratch
from tidemill.worker.slots import Slot
from tidemill.worker.stop import Stop, Why

TICK_SECONDS = 0.1
BATCH_SECONDS = 0.1
BATCH_ITEMS = 512
CANCEL_SECONDS = 30.0
"""Between two looks for the job's tombstone."""
ERROR_CHARACTERS = 500
"""Of an item's error in the worker's log; the record keeps more."""
LEASE_PAUSE = 0.2
"""How long a source is waited for, or left alone when it had nothing and there is other work."""
_END_SECONDS = GRACE_SECONDS + 10.0


class Worker:
    """A worker.

    Args:
        store: The job store.
        source: Where chunks come from.
        runners: Run items.
        scratch: Its folder.
        stop: Ends it.
        base_env: What a program sees of the container's environment.
        slots: Items side by side; None for what the first job asks for.
        capacity: What a worker of a whole machine has: it runs as many items as fit, whatever the job asks for.
    """

    def __init__(
        self,
        store: Store,
        source: LeaseSource,
        runners: Runners,
        *,
        scratch: Scratch,
        stop: Stop,
        base_env: Mapping[str, str],
        slots: int | None = None,
        capacity: Capacity | None = None,
    ) -> None:
        self._store, self._source, self._runners, self._scratch, self._stop = store, source, runners, scratch, stop
        self._base_env = dict(base_env)
        self._slots = slots or 0
        self._capacity = capacity
        self._all_slots: list[Slot] = []
        self._free: list[Slot] = []
        self._envs: dict[tuple[str, int], Mapping[str, str]] = {}
        self._outcomes: deque[tuple[ChunkRun, Outcome]] = deque()
        self._jobs: dict[tuple[str, int], Job] = {}
        self._chunks: list[ChunkRun] = []
        self._events: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._pool: ThreadPoolExecutor | None = None
        self._settled = False
        self._cancelled = False
        self._lease_at = 0.0
        self._cancel_at = 0.0
        stop.wake = lambda: self._events.put(None)
        if slots:
            self._open_slots(slots)

    def run(self) -> WorkerExit:
        """Work until there is nothing left or the flag is raised. Never raises for what a store or a job does."""
        try:
            self._work()
            self._finish()
        except (TamperedError, UnreadableError, CallerError) as error:
            say(str(error), "error")
            self._abandon("refused")
            return WorkerExit.STOPPED
        except StoreError as error:
            say(str(error), "error")
            self._abandon("store")
            return WorkerExit.STORE_UNAVAILABLE
        finally:
            if self._pool:
                self._pool.shutdown(wait=True, cancel_futures=True)
            for slot in self._all_slots:
                self._runners.close(slot)
        if not self._stop or (not self._chunks and self._source.exhausted and self._settled):
            return WorkerExit.DONE
        return WorkerExit.STOPPED if self._cancelled else WorkerExit.RECLAIMED

    def _work(self) -> None:
        while not self._stop:
            self._lease_chunks()
            self._start_items()
            if not self._chunks and self._source.exhausted:
                return
            self._handle(TICK_SECONDS if self._chunks else 0.0)
            self._keep()

    # ---- chunks -------------------------------------------------------------------------------------------------

    def _lease_chunks(self) -> None:
        while not self._source.exhausted and self._wants_more():
            idle = not self._chunks
            if not idle and time.monotonic() < self._lease_at:
                return
            lease = self._source.lease(LEASE_PAUSE if idle else 0.0)
            if lease is None:
                self._lease_at = time.monotonic() + (0.0 if idle else LEASE_PAUSE)
                return
            self._open(lease)
            if self._stop:
                return

    def _wants_more(self) -> bool:
        waiting = sum(len(chunk.pending) for chunk in self._chunks)
        return not self._slots or waiting < max(1, len(self._free))

    def _open(self, lease: Lease) -> None:
        key = (lease.job, lease.round)
        if key not in self._jobs:
            self._jobs[key] = Job(self._store, lease)
        job = self._jobs[key]
        if job.ledger.is_cancelled(lease.round):
            self._stop(Why.CANCELLED)
            lease.release()
            return
        if job.round.code and key not in self._envs and not self._prepare(job):
            lease.release()
            return
        if not self._slots:
            self._open_slots(self._capacity.slots(job.spec.resources, WORKER_MIB) if self._capacity else job.spec.slots)
            self._share_gpus(job.spec.resources.gpus)
        chunk = ChunkRun(job, lease)
        chunk.running = lambda: [slot.current for slot in self._all_slots if slot.current is not None]
        chunk.open(self._slots)
        if chunk.settled:
            lease.ack()
            self._settled = True
            say("the chunk was already done", job=job.id, chunk=chunk.number, lease=lease.attempt)
            return
        self._chunks.append(chunk)
        say("chunk leased", job=job.id, chunk=chunk.number, lease=lease.attempt, items=len(chunk.pending))
        self._settle(chunk)

    def _prepare(self, job: Job) -> bool:
        """Have the shipped code of a job on this machine; says whether it is. What went wrong is told to the job."""
        from tidemill.worker.code import InstallError, StoppedError

        number, env = job.round.round, {**self._base_env, **job.spec.env}
        try:
            code = self._runners.codes(self._store).ready(job.id, job.round.code or "", job.spec, env)
        except StoppedError:
            return False
        except TamperedError as error:
            job.ledger.cancel("worker", str(error), number + 1)
            raise
        except InstallError as error:
            job.ledger.start_failed(number, str(error))
            if not job.ledger.is_cancelled(number):
                raise StoreError(str(error)) from None
            say(str(error), "error", job=job.id)
            self._stop(Why.CANCELLED)
            return False
        job.spec = code.spec(job.spec)
        self._envs[job.id, number] = code.environment(env)
        return True

    def _settle(self, chunk: ChunkRun) -> None:
        """Commit and acknowledge a chunk whose items all have outcomes."""
        if not chunk.complete or chunk not in self._chunks:
            return
        commit = chunk.commit()
        chunk.lease.ack()
        self._chunks.remove(chunk)
        self._settled = True
        how = "chunk committed" if commit.won else "the chunk was committed by another attempt"
        head = commit.record.header
        labels = {"job": chunk.job.id, "chunk": chunk.number, "lease": chunk.lease.attempt}
        say(how, **labels, items=head.items, failed=head.failed)

    def _keep(self) -> None:
        """What has to happen now and then: progress, longer leases, a look for the tombstone."""
        now = time.monotonic()
        for chunk in self._chunks:
            chunk.save_if_due()
            chunk.lease.extend()
        if now >= self._cancel_at + CANCEL_SECONDS:
            if self._cancel_at and any(j.ledger.is_cancelled(j.round.round) for j in {c.job for c in self._chunks}):
                self._stop(Why.CANCELLED)
            self._cancel_at = now

    # ---- items --------------------------------------------------------------------------------------------------

    def _open_slots(self, slots: int) -> None:
        self._slots = slots
        self._pool = ThreadPoolExecutor(slots, thread_name_prefix="slot")
        for number in range(slots):
            env = {"TIDEMILL_PORT_BASE": str(self._scratch.port_base())}
            if self._scratch.cache:
                env["TIDEMILL_CACHE"] = self._scratch.cache
            self._all_slots.append(Slot(number, self._scratch.folder / f"slot-{number}", env))
        self._free = list(self._all_slots)

    def _share_gpus(self, gpus: int) -> None:
        """Give each slot GPUs of its own; a container's only slot has them all."""
        there = self._capacity.gpus if self._capacity and gpus else ()
        for slot in self._all_slots if there else []:
            names = there[slot.number * gpus : (slot.number + 1) * gpus]
            slot.env["CUDA_VISIBLE_DEVICES"] = ",".join(names)

    def _start_items(self) -> None:
        for chunk in self._chunks:
            while self._free and chunk.pending and not self._stop:
                slot = self._free.pop()
                tasks = [self._task(chunk, item) for item in chunk.take_some(self._batch_size(chunk))]
                assert self._pool is not None
                self._pool.submit(self._run_batch, chunk, tasks, slot)
            for item in islice(chunk.pending, self._slots if chunk.job.spec.stages_input else 0):
                self._runners.prefetch(self._task(chunk, item))

    def _batch_size(self, chunk: ChunkRun) -> int:
        """Items that a slot takes at once: many short ones, so that they do not wait for us, and one long one."""
        seconds = chunk.job.item_seconds
        if not seconds or not chunk.job.proven or chunk.job.spec.stages_input:
            return 1
        return max(1, min(int(BATCH_SECONDS / seconds), BATCH_ITEMS, -(-len(chunk.pending) // self._slots)))

    def _task(self, chunk: ChunkRun, item: Item) -> Task:
        job = chunk.job
        return Task(job.id, chunk.number, chunk.lease.attempt, job.spec, item, job.output_prefix, self._env_of(job))

    def _env_of(self, job: Job) -> Mapping[str, str]:
        key = (job.id, job.round.round)
        if key not in self._envs:
            self._envs[key] = {**self._base_env, **job.spec.env}
        return self._envs[key]

    def _run_batch(self, chunk: ChunkRun, tasks: list[Task], slot: Slot) -> None:
        """In a slot's thread. Outcomes are left for the loop, which is woken at the end only: it looks often enough."""
        batch, error = _Batch(chunk, tasks, slot), None
        started = time.monotonic()
        try:
            self._runners.run(tasks, slot, lambda outcome: self._outcomes.append((chunk, outcome)))
        except Exception as failure:  # a slot that dies silently would hang the chunk
            error = failure
        batch.seconds, batch.error = time.monotonic() - started, error
        self._events.put(batch)

    def _handle(self, seconds: float) -> None:
        """Take in what ended in the slots, and give them more before anything is written down."""
        ended: list[_Batch] = []
        try:
            event = self._events.get(timeout=max(0.0, seconds))
            while True:
                if event is not None:
                    ended.append(event)
                event = self._events.get_nowait()
        except queue.Empty:
            pass
        outcomes = [self._outcomes.popleft() for _ in range(len(self._outcomes))]
        for batch in ended:
            self._free.append(batch.slot)
            if batch.error is not None:
                raise StoreError(
                    f"the worker failed on item {batch.tasks[0].item.index}: {batch.error!r}"
                ) from batch.error
            mean = batch.seconds / len(batch.tasks)
            known = batch.chunk.job.item_seconds
            # A first item pays for imports and caches: the mean moves fast.
            batch.chunk.job.item_seconds = mean if not known else 0.3 * known + 0.7 * mean
        # Until an item has succeeded each failure is looked at first: it may end the job.
        if not self._stop and all(chunk.job.proven for chunk in self._chunks):
            self._start_items()
        for chunk, outcome in outcomes:
            self._record(chunk, outcome)
        for chunk in {chunk for chunk, _ in outcomes}:
            self._settle(chunk)

    def _record(self, chunk: ChunkRun, outcome: Outcome) -> None:
        if outcome.status == "failed":
            labels = {"job": chunk.job.id, "chunk": chunk.number, "lease": chunk.lease.attempt, "item": outcome.index}
            say("item failed", "warning", **labels, **_why(outcome))
        chunk.finished(outcome)
        chunk.job.proven = chunk.job.proven or outcome.status == "succeeded"
        if outcome.reason == "start" and chunk.job.same_program and not chunk.any_success:
            chunk.job.ledger.start_failed(chunk.job.round.round, outcome.error or "")
            if chunk.job.ledger.is_cancelled(chunk.job.round.round):
                self._stop(Why.CANCELLED)

    # ---- the end before the end ---------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Drain: say so first, then wait for the programs to end, write what is done, and let go."""
        if not self._stop:
            return
        say("stopping", why=self._stop.why.value if self._stop.why else "")
        self._cancelled = self._is_cancelled()
        for chunk in self._chunks:
            # First the marker, then what is done: the machine may be gone before the programs have ended.
            chunk.left("cancelled") if self._cancelled else chunk.drained()
            chunk.save()
        deadline = time.monotonic() + _END_SECONDS
        while len(self._free) < self._slots and time.monotonic() < deadline:
            self._handle(min(TICK_SECONDS, deadline - time.monotonic()))
        for chunk in self._chunks:
            chunk.save()
            chunk.lease.release()

    def _is_cancelled(self) -> bool:
        """Whether the job is cancelled. The cloud ends the containers of such a job by a signal, which is no drain."""
        if self._stop.why is Why.SIGNAL:
            return any(job.ledger.is_cancelled(job.round.round) for job in self._jobs.values())
        return self._stop.why is Why.CANCELLED

    def _abandon(self, how: str) -> None:
        """The worker cannot go on: end the programs, and say what can still be said."""
        self._stop(Why.BROKEN)
        for chunk in self._chunks:
            try:
                chunk.left(how)
                chunk.lease.release()
            except StoreError:
                continue


def _why(outcome: Outcome) -> dict[str, object]:
    """The fields by which the stack's metric filter counts failed items, and why this one did."""
    error = (outcome.error or "")[-ERROR_CHARACTERS:]
    return {
        "event": "item",
        "status": outcome.status,
        "reason": outcome.reason,
        "attempts": outcome.attempts,
        "error": error,
    }


@dataclass
class _Batch:
    """Items that ran in a slot."""

    chunk: ChunkRun
    tasks: list[Task]
    slot: Slot
    seconds: float = 0.0
    error: Exception | None = None
