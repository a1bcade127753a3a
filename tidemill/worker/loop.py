"""The one loop of every backend: lease a chunk, run what is left of it, commit, acknowledge.

There is no barrier at a chunk's end: the next chunk is leased as soon as a slot would be empty. One thread (the
caller's) leases, reads and writes the ledger and starts items; each slot runs one item in a thread of its own.

Whose fault is it? What an item does wrong is its outcome. An error in a slot that nothing foresaw is a death of the
item that was running there: its chunk is given up, the others go on. What is wrong with the data of a job ends that
job. Only a store that does not answer ends the worker.

Where the source serves one job, that job's end is the worker's end. Where it serves many, no job ends the worker: the
chunks of one that is cancelled or refused are acknowledged and its items ended, and the others go on.
"""

from __future__ import annotations

import queue
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice

from tidemill import layout
from tidemill.capacity import WORKER_MIB
from tidemill.descriptor import Resources, WorkerExit
from tidemill.errors import CallerError, DamagedError, StoreError, StoreMissingError, TidemillError, decoding
from tidemill.job import Item
from tidemill.ledger import Ledger, Outcome
from tidemill.ledger.ledger import TamperedError, UnreadableError
from tidemill.store import Store
from tidemill.worker.capacity import Capacity
from tidemill.worker.chunk import HEARTBEAT_SECONDS, ChunkRun, LeasedJob
from tidemill.worker.jobs import JobCache
from tidemill.worker.leases import Lease, LeaseSource
from tidemill.worker.output import log
from tidemill.worker.programs import GRACE_SECONDS
from tidemill.worker.run_item import Task
from tidemill.worker.runners import Runners
from tidemill.worker.scratch import Scratch
from tidemill.worker.slots import Slot, SlotPool
from tidemill.worker.spending import ends_job
from tidemill.worker.stop import Stop, StopReason

TICK_SECONDS = 0.1
BATCH_SECONDS = 0.1
BATCH_ITEMS = 512
CANCEL_SECONDS = 30.0
"""Between two looks for the job's tombstone."""
ERROR_CHARACTERS = 500
"""Of an item's error in the worker's log; the record keeps more."""
TRACE_CHARACTERS = 4000
LEASE_PAUSE = 0.2
"""How long a source is waited for, or left alone when it had nothing and there is other work."""
AHEAD_SECONDS = 5.0
"""With every slot taken, the next chunk is leased only when items are shorter than this: it would lie here while others
have nothing to do."""
MOST_THREADS = 1024
DRAIN_THREADS = 16
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
        capacity: What a worker of a whole machine has: it runs as many items as fit, whatever their jobs ask for.
        lasts: Whether the machine lasts so many seconds more.
        heartbeat_seconds: How often a worker that serves many jobs says of a chunk that it is being worked on.
        beat: Called often while the loop goes round.
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
        lasts: Callable[[float], bool] = lambda seconds: True,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._source, self._runners, self._scratch, self._stop = store, source, runners, scratch, stop
        self._lasts, self._beat, self._heartbeat_seconds = lasts, beat, heartbeat_seconds
        of = capacity or slots
        self._room = SlotPool(of, self._slot, runners.close, WORKER_MIB) if of else None
        self._outcomes: deque[tuple[ChunkRun, Outcome]] = deque()
        self._jobs = JobCache(store, runners, base_env, stop)
        self._chunks: list[ChunkRun] = []
        self._events: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        # A thread is made when an item finds none free.
        self._pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="slot")
        self._next = Resources()
        """What an item of the next chunk is likely to need: what those of the last one do."""
        self._settled = False
        self._cancelled = False
        self._gave_up = False
        self._lease_at = 0.0
        self._cancel_at = 0.0
        stop.wake = lambda: self._events.put(None)

    def run(self) -> WorkerExit:
        """Work until there is nothing left or the flag is raised. Never raises for what a store or a job does."""
        try:
            self._work()
            self._finish()
            done = not self._stop or (not self._chunks and self._source.exhausted and self._settled)
        except (TamperedError, UnreadableError, DamagedError, CallerError) as error:
            log(str(error), "error")
            self._abandon("refused")
            return WorkerExit.STOPPED
        except StoreError as error:
            log(str(error), "error")
            self._abandon("store")
            return WorkerExit.STORE_UNAVAILABLE
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)
            if self._room:
                self._room.close()
            self._source.close()
        if done:
            # An array's child has one chunk, and its exit code is the only word about it.
            return WorkerExit.BROKEN if self._gave_up and not self._settled else WorkerExit.DONE
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
            self._take(lease)
            if self._stop:
                return

    def _wants_more(self) -> bool:
        if any(chunk.claims_machine for chunk in self._chunks):
            # A suspect is to have this machine to itself: another chunk would only wait here, and die with it.
            return False
        waiting = sum(len(chunk.pending) for chunk in self._chunks)
        free = self._room.left(self._next) if self._room else 1
        if free > 0:
            return waiting < free
        return not waiting and all(0 < chunk.job.item_seconds < AHEAD_SECONDS for chunk in self._chunks)

    def _take(self, lease: Lease) -> None:
        """Begin with a chunk. What is wrong with a job ends the worker only when it is the only one."""
        try:
            self._open(lease)
        except UnreadableError as error:
            if not self._source.many_jobs:
                raise
            # A machine with a newer worker may read it; without any, it ends in the dead letters.
            log(f"a chunk is given back: {error}", "error", job=lease.job, lease=lease.id)
            lease.release()
        except DamagedError as error:
            self._refuse_damaged(lease, error)
        except StoreMissingError as error:
            # The whole store may be out of reach: then this raises, and nothing is acknowledged.
            self._store.page(layout.JOBS)
            if self._store.exists(layout.spec(lease.job)):
                self._refuse_damaged(lease, DamagedError(str(error)))
            else:
                self._refuse(lease, CallerError(str(error)))
        except (TamperedError, CallerError) as error:
            self._refuse(lease, error)
        except StoreError:
            raise
        except Exception as error:
            if not self._source.many_jobs:
                raise
            # Nothing foresaw it, and it may pass; when it does not, the job ends.
            log(f"a chunk cannot be opened: {error!r}", "error", job=lease.job, lease=lease.id)
            ledger = Ledger(self._store, lease.job)
            try:
                ledger.start_failed(lease.round, f"a chunk cannot be opened: {error!r}")
            except DamagedError as damaged:
                self._damaged(ledger, lease.round, damaged)
            lease.release()

    def _refuse(self, lease: Lease, error: TidemillError) -> None:
        """A chunk can never be run, and its job cannot be told."""
        if not self._source.many_jobs:
            raise error
        log(f"a chunk is acknowledged that cannot be run: {error}", "error", job=lease.job, lease=lease.id)
        lease.ack()

    def _refuse_damaged(self, lease: Lease, error: DamagedError) -> None:
        self._damaged(Ledger(self._store, lease.job), lease.round, error)
        self._cancel(self._jobs.find(lease))
        lease.ack() if self._source.many_jobs else lease.release()

    def _damaged(self, ledger: Ledger, number: int, error: DamagedError) -> None:
        """An object of a job cannot be decoded: the job is cancelled, and `status` says why."""
        log(str(error), "error", job=ledger.job)
        ledger.cancel("worker", str(error), number + 1)

    @contextmanager
    def _on_behalf_of(self, job: LeasedJob) -> Iterator[None]:
        """What cannot be decoded in this block is the fault of a job, which ends."""
        try:
            with decoding(f"the ledger of {job.id}"):
                yield
        except DamagedError as error:
            self._damaged(job.ledger, job.round.round, error)
            self._cancel(job)

    def _open(self, lease: Lease) -> None:
        if Ledger(self._store, lease.job).is_cancelled(lease.round):
            self._cancel(self._jobs.find(lease))
            lease.ack() if self._source.many_jobs else lease.release()
            log("a chunk of a cancelled job is not run", job=lease.job, lease=lease.id)
            return
        job = self._jobs.of(lease, {chunk.job.key for chunk in self._chunks})
        number = lease.chunk(job.round)
        if twin := next((one for one in self._chunks if one.job is job and one.number == number), None):
            log("the chunk is here already", job=job.id, chunk=number, lease=twin.lease.id)
            twin.also(lease)
            return
        if not self._lasts(job.spec.timeout_seconds):
            log("this machine does not last as long as an item may take", job=job.id, lease=lease.id)
            lease.release()
            self._source.end()
            return
        if job.env is None and not self._prepare(job, lease):
            lease.ack() if job.stop.raised else lease.release()
            return
        if self._room is None:
            self._room = SlotPool(job.spec.slots, self._slot, self._runners.close)
        self._next = job.spec.resources
        many_jobs = self._source.many_jobs
        chunk = ChunkRun(job, lease, many_jobs=many_jobs, heartbeat_seconds=self._heartbeat_seconds)
        # Asked with the chunk: one that held itself would stay in memory until the garbage collector comes by.
        chunk.running = self._items_in_slots
        chunk.open(self._room.left(job.spec.resources))
        if chunk.settled:
            lease.ack()
            self._settled = True
            log("the chunk was already done", job=job.id, chunk=chunk.number, lease=lease.id)
            return
        self._chunks.append(chunk)
        log("chunk leased", job=job.id, chunk=chunk.number, lease=lease.id, items=len(chunk.pending))
        self._settle(chunk)

    def _prepare(self, job: LeasedJob, lease: Lease) -> bool:
        """Have the shipped code of a job on this machine; says whether it is. What went wrong is told to the job."""
        from tidemill.worker.code import InstallError

        try:
            prepared = self._pool.submit(self._jobs.prepare, job)
            prepared.add_done_callback(lambda _: self._events.put(None))
            while not prepared.done():
                # Packages may take minutes: what is here goes on.
                lease.extend()
                self._start_items()
                self._handle(TICK_SECONDS)
                self._keep()
            return prepared.result()
        except InstallError as error:
            cancelled = job.ledger.is_cancelled(job.round.round)
            if not cancelled and not self._source.many_jobs:
                raise StoreError(str(error)) from None
            log(str(error), "error", job=job.id)
            if cancelled:
                self._cancel(job)
            return False

    def _settle(self, chunk: ChunkRun) -> None:
        """Commit and acknowledge a chunk whose items all have outcomes."""
        if not chunk.complete or chunk not in self._chunks:
            return
        spent, commit = chunk.write_spent(ends=True), None
        with self._on_behalf_of(chunk.job):
            commit = chunk.commit()
        if commit is None:
            return
        chunk.ack()
        self._chunks.remove(chunk)
        # Else a slot would keep its items in memory beside those of the next chunk.
        for slot in self._slots_of(chunk):
            slot.chunk = None
        self._settled = True
        how = "chunk committed" if commit.won else "the chunk was committed by another attempt"
        head = commit.record.header
        labels = {"job": chunk.job.id, "chunk": chunk.number, "lease": chunk.lease.id}
        log(how, **labels, items=head.items, failed=head.failed)
        self._guard(chunk.job, spent)

    def _guard(self, job: LeasedJob, spent: float) -> None:
        """Some seconds of a job were written down: it may have passed its limit."""
        if not spent or not job.limit or job.stop.raised:
            return
        with self._on_behalf_of(job):
            if ends_job(job.ledger, job.limit, job.round, spent):
                log("the job has reached its limit", "warning", job=job.id, max_usd=job.limit.max_usd)
                self._cancel(job)

    def _cancel(self, job: LeasedJob | None) -> None:
        """A job is cancelled: end its items, if it is at work here, and the worker when it serves no other."""
        if not self._source.many_jobs:
            self._stop(StopReason.CANCELLED)
        elif job and not job.stop.raised:
            log("the job is cancelled; its chunks are acknowledged", job=job.id)
            job.stop(StopReason.CANCELLED)
            self._jobs.forget(job)

    def _let_go(self) -> None:
        """Let chunks go of which nothing runs or will run: of cancelled jobs, those that a slot failed on, and what the
        machine does not outlast."""
        for chunk in [chunk for chunk in self._chunks if not chunk.batches]:
            if chunk.job.stop.raised:
                chunk.save()
                chunk.write_spent(ends=True)
                chunk.left("cancelled")
                chunk.ack()
            elif chunk.is_broken:
                self._gave_up = True
                self._let_go_of(chunk, "broke")
            elif chunk.pending and not self._lasts(chunk.job.spec.timeout_seconds):
                self._source.end()
                self._let_go_of(chunk, "released")
            else:
                continue
            self._chunks.remove(chunk)
            for one in chunk.pending:
                self._runners.forget(self._task(chunk, one))
            log("chunk given up", job=chunk.job.id, chunk=chunk.number, lease=chunk.lease.id)

    def _keep(self) -> None:
        """What has to happen now and then: progress, longer leases, a look for the tombstone."""
        now = time.monotonic()
        self._beat()
        self._let_go()
        for chunk in list(self._chunks):
            chunk.save_if_due()
            chunk.extend()
            self._guard(chunk.job, chunk.write_spent())
        if now >= self._cancel_at + CANCEL_SECONDS:
            for job in {chunk.job for chunk in self._chunks} if self._cancel_at else ():
                if not job.stop.raised and job.ledger.is_cancelled(job.round.round):
                    self._cancel(job)
            self._cancel_at = now

    # ---- items --------------------------------------------------------------------------------------------------

    def _slot(self, number: int) -> Slot:
        env = {"TIDEMILL_PORT_BASE": str(self._scratch.port_base())}
        if self._scratch.cache:
            env["TIDEMILL_CACHE"] = self._scratch.cache
        return Slot(number, self._scratch.folder / f"slot-{number}", env)

    def _slots_of(self, chunk: ChunkRun) -> list[Slot]:
        return [slot for slot in self._room.slots if slot.chunk is chunk] if self._room else []

    def _items_in_slots(self, chunk: ChunkRun) -> list[int]:
        return [slot.current for slot in self._slots_of(chunk) if slot.current is not None]

    def _start_items(self) -> None:
        """Fill the slots, the oldest chunk's items first: one that waits for more room is not passed by smaller ones
        for ever."""
        for chunk in self._chunks:
            if any(one.runs_alone for one in self._chunks):
                return
            if chunk.job.stop:
                continue
            if not self._lasts(chunk.job.spec.timeout_seconds):
                self._source.end()
                continue
            assert self._room is not None
            item, side_by_side = chunk.job.spec.resources, self._room.count(chunk.job.spec.resources)
            while chunk.ready and not self._stop:
                if chunk.next_alone and self._room.busy:
                    return
                slot = self._room.take(chunk.job.key, item)
                if slot is None:
                    break
                slot.chunk, slot.current = chunk, None
                items = chunk.take_some(
                    self._batch_size(chunk, side_by_side), alone=self._makes_room(chunk, side_by_side)
                )
                tasks = [self._task(chunk, one) for one in items]
                chunk.holds(chunk.batches + 1)
                self._pool.submit(self._run_batch, chunk, tasks, slot)
            for one in islice(chunk.pending, side_by_side if chunk.job.spec.stages_input else 0):
                self._runners.prefetch(self._task(chunk, one))
            if chunk.ready:
                return

    def _makes_room(self, chunk: ChunkRun, slots: int) -> bool:
        """Whether a careful chunk's next item will have this worker to itself until it ends. If so, the markers of the
        others say that nothing of theirs runs."""
        alone = chunk.careful and (chunk.next_alone or (slots == 1 and not self._source.many_jobs))
        for other in self._chunks if alone else ():
            if other is not chunk:
                other.pause()
        return alone

    def _batch_size(self, chunk: ChunkRun, slots: int) -> int:
        """Items that a slot takes at once: many short ones, so that they do not wait for us, and one long one."""
        seconds = chunk.job.item_seconds
        if not seconds or not chunk.job.proven or chunk.job.spec.stages_input:
            return 1
        return max(1, min(int(BATCH_SECONDS / seconds), BATCH_ITEMS, -(-len(chunk.pending) // slots)))

    def _task(self, chunk: ChunkRun, item: Item) -> Task:
        job = chunk.job
        env = job.env or {}
        return Task(job.id, chunk.number, chunk.lease.id, job.spec, item, job.output_prefix, env, job.stop)

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
            assert self._room is not None
            self._room.give(batch.slot)
            batch.chunk.holds(batch.chunk.batches - 1)
            if batch.error is not None:
                self._broke(batch, batch.error)
                continue
            mean = batch.seconds / len(batch.tasks)
            known = batch.chunk.job.item_seconds
            # A first item pays for imports and caches: the mean moves fast.
            batch.chunk.job.item_seconds = mean if not known else 0.3 * known + 0.7 * mean
        # Until an item has succeeded each failure is looked at first: it may end the job.
        if not self._stop and all(chunk.job.proven for chunk in self._chunks):
            self._start_items()
        for chunk, outcome in outcomes:
            if chunk in self._chunks:
                self._record(chunk, outcome)
        for chunk in {chunk for chunk, _ in outcomes}:
            self._settle(chunk)

    def _broke(self, batch: _Batch, error: Exception) -> None:
        """A slot failed in a way that nothing foresaw: that is a death of the item which was running in it."""
        index = batch.slot.current
        item = batch.tasks[0].item.index if index is None else index
        chunk, text = batch.chunk, f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS]
        labels = {"job": chunk.job.id, "chunk": chunk.number, "lease": chunk.lease.id, "item": item}
        trace = "".join(traceback.format_exception(error))[-TRACE_CHARACTERS:]
        log(f"the worker failed on an item: {text}", "error", **labels, traceback=trace)
        chunk.broke(item, text)

    def _record(self, chunk: ChunkRun, outcome: Outcome) -> None:
        if outcome.status == "failed":
            labels = {"job": chunk.job.id, "chunk": chunk.number, "lease": chunk.lease.id, "item": outcome.index}
            log("item failed", "warning", **labels, **_why(outcome))
        chunk.finished(outcome)
        chunk.job.proven = chunk.job.proven or outcome.status == "succeeded"
        if outcome.reason == "start" and chunk.job.same_program and not chunk.any_success:
            with self._on_behalf_of(chunk.job):
                chunk.job.ledger.start_failed(chunk.job.round.round, outcome.error or "")
            if chunk.job.ledger.is_cancelled(chunk.job.round.round):
                self._cancel(chunk.job)

    # ---- the end before the end ---------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Drain: say so first, then wait for the programs to end, write what is done, and let go."""
        if not self._stop:
            return
        log("stopping", why=self._stop.reason.value if self._stop.reason else "")
        self._source.end()
        self._cancelled = self._is_cancelled()
        self._with_all(self._interrupted)
        deadline = time.monotonic() + _END_SECONDS
        while self._room and self._room.busy and time.monotonic() < deadline:
            self._handle(min(TICK_SECONDS, deadline - time.monotonic()))
        self._with_all(self._let_go_of)

    def _interrupted(self, chunk: ChunkRun) -> None:
        """First the marker, then what is done: the machine may be gone before the programs have ended."""
        chunk.left("cancelled") if self._cancelled or chunk.job.stop.raised else chunk.drained()
        chunk.save()

    def _let_go_of(self, chunk: ChunkRun, how: str | None = None) -> None:
        """Write what is done, and give the rest to somebody else; `how` is said in the marker."""
        chunk.save()
        chunk.write_spent(ends=True)
        if how:
            chunk.left(how)
        chunk.release()

    def _with_all(self, do: Callable[[ChunkRun], None]) -> None:
        """Do something with every chunk, side by side: a large machine has as little time left as a small one."""
        with ThreadPoolExecutor(DRAIN_THREADS, thread_name_prefix="drain") as pool:
            list(pool.map(do, list(self._chunks)))

    def _is_cancelled(self) -> bool:
        """Whether the job is cancelled. The cloud ends the containers of such a job by a signal, which is no drain."""
        if self._stop.reason is StopReason.SIGNAL and not self._source.many_jobs:
            return any(job.ledger.is_cancelled(job.round.round) for job in self._jobs)
        return self._stop.reason is StopReason.CANCELLED

    def _abandon(self, how: str) -> None:
        """The worker cannot go on: end the programs, and say what can still be said."""
        self._stop(StopReason.BROKEN)

        def give_up(chunk: ChunkRun) -> None:
            with suppress(StoreError):
                chunk.left(how)
                chunk.save()
                chunk.write_spent(ends=True)
            chunk.release()

        self._with_all(give_up)


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
