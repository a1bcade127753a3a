"""How a worker comes by chunks: when it leases one, what it does with a lease, and what it does when that fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from tidemill import layout
from tidemill.descriptor import Resources
from tidemill.errors import CallerError, DamagedError, ObjectNameError, StoreError, StoreMissingError, TidemillError
from tidemill.layout import ChunkKey
from tidemill.ledger import Ledger
from tidemill.ledger.digest import UNKNOWN, RanOn
from tidemill.ledger.documents import TamperedError, UnreadableError
from tidemill.ledger.gate import Gate
from tidemill.store import Store
from tidemill.worker.chunks.chunk import ChunkRun
from tidemill.worker.chunks.first_item import FirstItem
from tidemill.worker.chunks.held_chunks import HeldChunks
from tidemill.worker.chunks.jobs import JobCache, LeasedJob
from tidemill.worker.chunks.observers import ChunkObserver
from tidemill.worker.chunks.running_items import RunningItems
from tidemill.worker.chunks.spending import Spending
from tidemill.worker.lease import Lease, LeaseSource
from tidemill.worker.machine.machine_folder import NotReadyError
from tidemill.worker.machine.stop import Stop
from tidemill.worker.output import log

LEASE_PAUSE = 0.2
"""Seconds to wait for a source, or to leave it alone when it had nothing and there is other work."""
AHEAD_SECONDS = 5.0
"""With every slot taken, the next chunk is leased only when items are shorter than this: it would lie here while other
workers have nothing to do."""


class Leasing:
    """Leases chunks and opens them. `wait` is a turn of the worker's loop, for while a job's code is prepared."""

    def __init__(
        self,
        store: Store,
        source: LeaseSource,
        jobs: JobCache,
        held: HeldChunks,
        items: RunningItems,
        *,
        stop: Stop,
        heartbeat_seconds: float,
        wait: Callable[[], None],
        machine: RanOn = UNKNOWN,
    ) -> None:
        self._store, self._source, self._jobs, self._held, self._items = store, source, jobs, held, items
        self._stop, self._heartbeat_seconds, self._wait, self._machine = stop, heartbeat_seconds, wait, machine
        self._next = Resources()
        """What an item of the next chunk is likely to need: what those of the last one do."""
        self._lease_at = 0.0

    def lease(self) -> None:
        """Lease chunks as long as slots would be empty without them."""
        while not self._source.exhausted and self.wants_more():
            idle = not len(self._held)
            if not idle and time.monotonic() < self._lease_at:
                return
            lease = self._source.lease(LEASE_PAUSE if idle else 0.0)
            if lease is None:
                self._lease_at = time.monotonic() + (0.0 if idle else LEASE_PAUSE)
                return
            self._accept(lease)
            if self._stop.raised:
                return

    def wants_more(self) -> bool:
        if any(chunk.claims_machine for chunk in self._held):
            # A suspect gets this machine to itself: another chunk would only wait here and die with it.
            return False
        waiting = sum(_startable(chunk) for chunk in self._held)
        free = self._items.free(self._next)
        if free > 0:
            return waiting < free
        if not all(0 < chunk.job.item_seconds < AHEAD_SECONDS for chunk in self._held):
            return False
        # Where inputs are fetched ahead, those of the next chunk are fetched while the last items of this one run.
        return not waiting or any(waiting < self._items.ahead(chunk) for chunk in self._held)

    def _accept(self, lease: Lease) -> None:
        """Begin with a chunk. An error in a job ends the worker only if that job is its only one."""
        try:
            self._open(lease)
        except UnreadableError as error:
            if not self._source.many_jobs:
                raise
            # A machine with a newer worker may read it; otherwise it ends in the dead-letter topic.
            log(f"chunk returned to the queue: {error}", "error", job=lease.job, lease=lease.id)
            lease.release()
        except DamagedError as error:
            self._refuse_damaged(lease, error)
        except StoreMissingError as error:
            # If the whole store is out of reach, this raises, and nothing is acknowledged.
            with suppress(ObjectNameError):  # An object there proves that it is not.
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
            # An unexpected error may pass; if it does not, the job ends.
            log(f"cannot open a chunk: {error!r}", "error", job=lease.job, lease=lease.id)
            ledger = Ledger(self._store, lease.job)
            try:
                ledger.start_failed(lease.round, f"cannot open a chunk: {error!r}")
            except DamagedError as damaged:
                self._held.damaged(ledger, lease.round, damaged)
            lease.release()

    def _refuse(self, lease: Lease, error: TidemillError) -> None:
        """Drop a chunk that can never run and whose job cannot be informed."""
        if not self._source.many_jobs:
            raise error
        log(f"chunk cannot run; acknowledged and dropped: {error}", "error", job=lease.job, lease=lease.id)
        lease.ack()

    def _refuse_damaged(self, lease: Lease, error: DamagedError) -> None:
        self._held.damaged(Ledger(self._store, lease.job), lease.round, error)
        self._held.cancel(self._jobs.find(lease))
        self._let_end(lease)

    def _let_end(self, lease: Lease) -> None:
        """The job of a chunk has ended: its message goes; an array's child says so by its exit code."""
        if self._source.many_jobs:
            lease.ack()
        else:
            lease.release()

    def _open(self, lease: Lease) -> None:
        if Ledger(self._store, lease.job).is_cancelled(lease.round):
            self._held.cancel(self._jobs.find(lease))
            self._held.tell_end(lease.job)
            self._let_end(lease)
            log("chunk of a cancelled job skipped", job=lease.job, lease=lease.id)
            return
        job = self._jobs.of(lease, {chunk.job.key for chunk in self._held})
        number = lease.chunk(job.round)
        if twin := next((one for one in self._held if one.job is job and one.number == number), None):
            log("chunk is already held here", **twin.labels)
            twin.leases.add(lease)
            return
        if self._may_not_run(job, lease):
            return
        if not self._held.outlasts(job):
            log("machine's remaining run time is shorter than the item time limit", job=job.id, lease=lease.id)
            lease.release()
            return
        if job.env is None and not self._prepare(job, lease):
            if job.stop.cancelled:
                lease.ack()
            else:
                lease.release()
            return
        slots, self._next = self._items.reserve(job), job.spec.resources
        chunk = self._chunk(job, lease)
        chunk.open(slots)
        if chunk.settled:
            self._held.acknowledge(chunk)
            self._held.any_settled = True
            log("chunk was already done", **chunk.labels)
            return
        self._held.add(chunk)
        log("chunk leased", **chunk.labels, items=len(chunk.pending))
        self._held.settle(chunk)

    def _may_not_run(self, job: LeasedJob, lease: Lease) -> bool:
        """Drop a chunk of a job that waits for another one, or that has not started in time. False for any other."""
        if (gate := job.gate()) is not None:
            self._leave_closed(job, lease, gate)
        elif (reason := job.late()) is not None:
            log(f"job ends: {reason}", "warning", job=job.id)
            self._end(job, lease, reason)
        else:
            return False
        return True

    def _leave_closed(self, job: LeasedJob, lease: Lease, gate: Gate) -> None:
        """Drop a chunk whose job has to wait for another one: it was delivered early, or for nothing."""
        if gate.never:
            log(f"job can never begin: {gate.never.why}", "warning", job=job.id)
            self._end(job, lease, gate.never.reason(job.id))
        elif self._source.many_jobs:
            log(f"chunk returned to the queue: its job {gate.words()}", job=job.id, lease=lease.id)
            lease.release()
        else:
            # Its queue would only start it again at once. A client enqueues it again when it is due.
            raise CallerError(f"{job.id} {gate.words()}; none of its items runs yet.")

    def _end(self, job: LeasedJob, lease: Lease, reason: str) -> None:
        job.ledger.cancel("worker", reason, job.round.round + 1)
        self._held.cancel(job)
        self._let_end(lease)

    def _chunk(self, job: LeasedJob, lease: Lease) -> ChunkRun:
        observers: list[ChunkObserver] = [] if job.first_item_noted else [FirstItem(job, lease.id)]
        if job.limit:
            key = ChunkKey(job.id, job.round.round, lease.chunk(job.round))
            observers.append(Spending(job.ledger, key, lease.id, recorded=partial(self._held.spent, job)))
        return ChunkRun(
            job,
            lease,
            many_jobs=self._source.many_jobs,
            heartbeat_seconds=self._heartbeat_seconds,
            observers=observers,
            machine=self._machine,
        )

    def _prepare(self, job: LeasedJob, lease: Lease) -> bool:
        """Prepare what a job needs on this machine; returns whether it is there. Errors are recorded in the job."""
        try:
            prepared = self._items.threads.submit(self._jobs.prepare, job)
            prepared.add_done_callback(self._items.wake)
            while not prepared.done():
                # Packages may take minutes: the other chunks continue meanwhile.
                lease.extend()
                self._items.start()
                self._wait()
            return prepared.result()
        except NotReadyError as error:
            cancelled = job.ledger.is_cancelled(job.round.round)
            if not cancelled and not self._source.many_jobs:
                raise StoreError(str(error)) from None
            log(str(error), "error", job=job.id)
            if cancelled:
                self._held.cancel(job)
            return False


def _startable(chunk: ChunkRun) -> int:
    """How many items of a chunk wait for nothing but room."""
    return int(chunk.ready) if chunk.one_by_one else len(chunk.pending)
