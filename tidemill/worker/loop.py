"""The one loop of every backend: lease a chunk, run what is left of it, commit, acknowledge.

There is no barrier at a chunk's end: the next chunk is leased as soon as a slot would be empty. One thread (the
caller's) leases, reads and writes the ledger and starts items; each slot runs one item in a thread of its own.

Whose fault is it? What an item does wrong is its outcome. An error in a slot that nothing foresaw is a death of the
item that was running there: its chunk is given up, the others continue. What is wrong with the data of a job ends that
job. Only a store that does not answer ends the worker.

Where the source serves one job, that job's end is the worker's end. Where it serves many, no job ends the worker: the
chunks of one that is cancelled or refused are acknowledged and its items ended, and the others continue.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from tidemill.descriptor import WorkerExit
from tidemill.errors import CallerError, StoreError
from tidemill.ledger.digest import UNKNOWN, RanOn
from tidemill.machine import Capacity
from tidemill.store import Store
from tidemill.worker.chunks.chunk import ChunkRun
from tidemill.worker.chunks.endings import Endings, Publish, no_topics
from tidemill.worker.chunks.held_chunks import HeldChunks
from tidemill.worker.chunks.jobs import JobCache
from tidemill.worker.chunks.leasing import Leasing
from tidemill.worker.chunks.observers import HEARTBEAT_SECONDS
from tidemill.worker.chunks.running_items import RunningItems
from tidemill.worker.exit_codes import exit_of
from tidemill.worker.items.runners import Runners
from tidemill.worker.lease import LeaseSource
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.stop import Stop, StopReason
from tidemill.worker.output import log, log_event
from tidemill.worker.programs.programs import GRACE_SECONDS

TICK_SECONDS = 0.1
_END_SECONDS = GRACE_SECONDS + 10.0


class Worker:
    """A worker.

    Args:
        store: The job store.
        source: Where chunks come from.
        runners: Run items.
        scratch: Its folder.
        stop: Ends it.
        base_env: The part of the container's environment that programs see.
        slots: Items side by side; None for what the first job asks for.
        capacity: The capacity of a whole machine: as many items run as fit, whatever their jobs ask for.
        lasts: Whether the machine lasts so many seconds more.
        heartbeat_seconds: How often a worker that serves many jobs says that a chunk is being worked on.
        beat: Called in every turn of the loop.
        machine: Where it is; records say so.
        publish: Sends a message to a topic.
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
        machine: RanOn = UNKNOWN,
        publish: Publish = no_topics,
    ) -> None:
        self._source, self._stop, self._beat = source, stop, beat
        self._jobs = JobCache(store, runners, base_env, stop)
        self._held = HeldChunks(source, self._jobs, runners, Endings(store, publish), stop=stop, lasts=lasts)
        self._items = RunningItems(self._held, runners, scratch, stop, capacity or slots, many_jobs=source.many_jobs)
        self._leasing = Leasing(
            store,
            source,
            self._jobs,
            self._held,
            self._items,
            stop=stop,
            heartbeat_seconds=heartbeat_seconds,
            wait=lambda: self._turn(TICK_SECONDS),
            machine=machine,
        )
        self._cancelled = False

    def run(self) -> WorkerExit:
        """Work until there is nothing left or the flag is raised. Never raises for what a store or a job does."""
        held, told = self._held, True
        try:
            self._work()
            self._drain()
            done = not self._stop.raised or (not len(held) and self._source.exhausted and held.any_settled)
        except (CallerError, StoreError) as error:
            code = exit_of(error)
            log_event("worker_error", str(error), "error", code=int(code))
            self._abandon("refused" if code is WorkerExit.STOPPED else "store")
            return code
        finally:
            self._items.close()
            told = held.leave()
            self._source.close()
        if self._stop.leaving and not self._stop.raised:
            # Machines that serve many jobs power off; elsewhere the code says that this worker is to blame.
            return WorkerExit.RECLAIMED if self._source.many_jobs else WorkerExit.BROKEN
        if done:
            if not told and not self._source.many_jobs:
                # The next container finds the chunk done, and tells.
                return WorkerExit.RECLAIMED
            # An array's child has one chunk, and only its exit code reports on it.
            if not held.any_settled and (held.any_broken or held.any_superseded):
                return WorkerExit.BROKEN if held.any_broken else WorkerExit.RECLAIMED
            return WorkerExit.DONE
        return WorkerExit.STOPPED if self._cancelled else WorkerExit.RECLAIMED

    def _work(self) -> None:
        while not self._stop.raised:
            self._leasing.lease()
            self._items.start()
            if not len(self._held) and self._source.exhausted:
                return
            self._turn(TICK_SECONDS if len(self._held) else 0.0)

    def _turn(self, seconds: float) -> None:
        self._items.handle(seconds)
        self._beat()
        self._held.tick()

    # ---- the end before the end ---------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Mark the chunks first, then wait for the programs to end, write what is done, and return the chunks."""
        if not self._stop.raised:
            return
        why = self._stop.reason.value if self._stop.reason else ""
        if self._stop.reason is StopReason.NOTICE:
            log_event("reclaim", "stopping", why=why, chunks=len(self._held))
        else:
            log("stopping", why=why)
        self._source.end()
        self._cancelled = self._is_cancelled()
        self._held.for_all(self._interrupt)
        deadline = time.monotonic() + _END_SECONDS
        if any(chunk.job.spec.state for chunk in self._held):
            deadline = max(deadline, self._stop.ends_at)
        while self._items.busy and time.monotonic() < deadline:
            self._items.handle(min(TICK_SECONDS, deadline - time.monotonic()))
        self._held.for_all(self._held.give_back)

    def _interrupt(self, chunk: ChunkRun) -> None:
        """Mark a chunk before its programs have ended: by then the machine may be gone."""
        chunk.end("cancelled" if self._cancelled or chunk.job.stop.cancelled else "drained")

    def _is_cancelled(self) -> bool:
        """True if the job is cancelled. The cloud ends the containers of such a job by a signal, which is not a
        drain."""
        if self._stop.reason is StopReason.SIGNAL and not self._source.many_jobs:
            return any(job.ledger.is_cancelled(job.round.round) for job in self._jobs)
        return self._stop.reason is StopReason.CANCELLED

    def _abandon(self, how: str) -> None:
        """The worker cannot continue: end the programs, and write what can still be written."""
        self._stop.set(StopReason.BROKEN)

        def give_up(chunk: ChunkRun) -> None:
            with suppress(StoreError):
                chunk.end(how)
            chunk.leases.release()

        self._held.for_all(give_up)
