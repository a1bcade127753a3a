"""The chunks that a worker holds: committed and acknowledged, or given back, and the end of their jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tidemill.errors import DamagedError, decoding
from tidemill.ledger import Commit, Ledger
from tidemill.worker.chunks.chunk import ChunkRun, HeldLeases
from tidemill.worker.chunks.endings import Endings
from tidemill.worker.chunks.jobs import JobCache, LeasedJob
from tidemill.worker.chunks.spending import ends_job
from tidemill.worker.items.runners import Runners
from tidemill.worker.lease import LeaseSource
from tidemill.worker.machine.stop import Stop, StopReason
from tidemill.worker.output import log, log_event

CANCEL_SECONDS = 30.0
CANCEL_SECONDS_LOCAL = 1.0
"""Seconds between two checks for a job's tombstone: a request each on object stores, which charge for it."""
DRAIN_THREADS = 16
WORTH_SECONDS = 900.0
"""A machine that lasts as long as this may take an item with state, however long that takes."""
AGE_SECONDS = 120.0
"""Seconds before its end in which a machine that reaches its greatest age lets items with state save."""


class HeldChunks:
    """The chunks that a worker holds, oldest first. `stop` is raised here when the worker's only job is cancelled."""

    def __init__(
        self,
        source: LeaseSource,
        jobs: JobCache,
        runners: Runners,
        endings: Endings,
        *,
        stop: Stop,
        lasts: Callable[[float], bool],
    ) -> None:
        self._source, self._jobs, self._runners, self._stop, self._lasts = source, jobs, runners, stop, lasts
        self._endings = endings
        self._chunks: list[ChunkRun] = []
        self.any_settled = False
        """Whether a chunk has a record, ours or another's."""
        self.any_broken = False
        """Whether a chunk was given up because the worker failed on one of its items."""
        self.any_superseded = False
        """Whether a chunk was left to another worker."""
        self._cancel_at = 0.0
        self._untold: list[tuple[threading.Event, HeldLeases]] = []
        """Chunks that are done, but the end of whose job is still to be told."""

    def __iter__(self) -> Iterator[ChunkRun]:
        return iter(list(self._chunks))

    def __len__(self) -> int:
        return len(self._chunks)

    def __contains__(self, chunk: ChunkRun) -> bool:
        return chunk in self._chunks

    def add(self, chunk: ChunkRun) -> None:
        self._chunks.append(chunk)

    def outlasts(self, job: LeasedJob) -> bool:
        """True if the machine lasts as long as an item of the job may take, or long enough to be worth it for one with
        state; if not, nothing more is leased."""
        longest = job.spec.timeout_seconds
        if self._lasts(longest if job.spec.state is None else min(longest, WORTH_SECONDS)):
            return True
        self._source.end()
        return False

    # ---- a job's end --------------------------------------------------------------------------------------------

    @contextmanager
    def on_behalf_of(self, job: LeasedJob) -> Iterator[None]:
        """A block that reads a job's objects: a damaged one ends the job."""
        try:
            with decoding(f"the ledger of {job.id}"):
                yield
        except DamagedError as error:
            self.damaged(job.ledger, job.round.round, error)
            self.cancel(job)

    def damaged(self, ledger: Ledger, number: int, error: DamagedError) -> None:
        """Cancel a job with a damaged object; `status` says why."""
        log(str(error), "error", job=ledger.job)
        ledger.cancel("worker", str(error), number + 1)

    def cancel(self, job: LeasedJob | None) -> None:
        """End a cancelled job's items, and the worker if it serves no other job."""
        if job and job.spec.notify:
            self.tell_end(job.id)
        if not self._source.many_jobs:
            self._stop.set(StopReason.CANCELLED)
        elif job and not job.stop.cancelled:
            log("job cancelled; acknowledging its chunks", job=job.id)
            job.stop.set(StopReason.CANCELLED)
            self._jobs.forget(job)

    def tell_end(self, job: str) -> None:
        """Tell those who asked for it that a job was cancelled, unless another one has."""
        self._endings.cancelled(job)

    def spent(self, job: LeasedJob, seconds: float) -> None:
        """Seconds of a job were recorded: it may have reached its limit."""
        if not job.limit or job.stop.cancelled:
            return
        with self.on_behalf_of(job):
            if ends_job(job.ledger, job.limit, job.round, seconds):
                log("job reached its cost limit", "warning", job=job.id, max_usd=job.limit.max_usd)
                self.cancel(job)

    # ---- chunks -------------------------------------------------------------------------------------------------

    def settle(self, chunk: ChunkRun) -> None:
        """Commit and acknowledge a chunk if all of its items have outcomes."""
        if not chunk.complete or chunk not in self._chunks:
            return
        commit = None
        with self.on_behalf_of(chunk.job):
            commit = chunk.commit()
        if commit is None:
            return
        self._chunks.remove(chunk)
        # Otherwise a slot would keep its items in memory along with those of the next chunk.
        for slot in chunk.slots.values():
            slot.chunk = None
        self.any_settled = True
        _log_commit(chunk, commit)
        for observer in chunk.observers:
            observer.on_committed()
        self.acknowledge(chunk)

    def acknowledge(self, chunk: ChunkRun) -> None:
        """Acknowledge a chunk that has a record, after the end of its job is told, if this may be its end."""
        over = self._endings.committed(chunk.job, chunk.number)
        if over is None:
            chunk.leases.ack()
        else:
            self._untold.append((over, chunk.leases))

    def leave(self) -> bool:
        """Wait for what is to be told, within bounds; returns whether nothing is left to tell."""
        self._endings.close(self._stop)
        self._acknowledge_told()
        return not self._untold

    def _acknowledge_told(self) -> None:
        waiting, self._untold = self._untold, []
        for over, leases in waiting:
            if over.is_set():
                leases.ack()
            else:
                leases.extend()
                self._untold.append((over, leases))

    def tick(self) -> None:
        """Periodic work: chunks that cannot continue go; the others are extended and written."""
        now = time.monotonic()
        if self._stop.leaving:
            self._source.end()
        if any(chunk.job.spec.state and chunk.batches for chunk in self) and not self._lasts(AGE_SECONDS):
            self._stop.set(StopReason.AGE, AGE_SECONDS)
        for chunk in self:
            if not chunk.batches and not chunk.sending:
                self._drop_if_ended(chunk)
        for chunk in self:
            chunk.tick()
            chunk.leases.extend()
        self._acknowledge_told()
        if now >= self._cancel_at + self._cancel_pace():
            for job in {chunk.job for chunk in self._chunks} if self._cancel_at else ():
                if not job.stop.cancelled and job.ledger.is_cancelled(job.round.round):
                    self.cancel(job)
            self._cancel_at = now

    def _cancel_pace(self) -> float:
        stores = (chunk.job.ledger.store for chunk in self._chunks)
        return CANCEL_SECONDS if any(store.is_object_store for store in stores) else CANCEL_SECONDS_LOCAL

    def _drop_if_ended(self, chunk: ChunkRun) -> None:
        """Drop a chunk that nothing runs of: its job is cancelled, an item broke the worker, or the machine ends
        too soon or is not fit for more."""
        if chunk.job.stop.cancelled:
            chunk.end("cancelled")
            chunk.leases.ack()
        elif chunk.superseded:
            self.any_superseded = True
            chunk.end("superseded")
            chunk.leases.abandon()
        elif chunk.broken:
            self.any_broken = True
            self.give_back(chunk, "broke")
        elif self._stop.leaving or (chunk.pending and not self.outlasts(chunk.job)):
            self.give_back(chunk, "released")
        else:
            return
        self._chunks.remove(chunk)
        for item in chunk.pending:
            self._runners.forget(chunk.task(item))
        log("chunk given up", **chunk.labels)

    def give_back(self, chunk: ChunkRun, how: str | None = None) -> None:
        """Write what is done, and give the rest to another worker; see `ChunkRun.end` for `how`."""
        chunk.end(how)
        chunk.leases.release()

    def for_all(self, do: Callable[[ChunkRun], None]) -> None:
        """Do something with every chunk in parallel: a large machine has as little time left as a small one."""
        with ThreadPoolExecutor(DRAIN_THREADS, thread_name_prefix="drain") as pool:
            list(pool.map(do, self))


def _log_commit(chunk: ChunkRun, commit: Commit) -> None:
    """One event per chunk, from the attempt whose record counts, so that sums over all events are exact."""
    header = commit.record.header
    counts: dict[str, Any] = {"items": header.items, "failed": header.failed}
    if not commit.won:
        log("the chunk was committed by another attempt", **chunk.labels, **counts)
        return
    digest = header.digest or {}
    held, wall = digest.get("held", 0.0), digest.get("wall", {}).get("sum", 0.0)
    times: dict[str, Any] = {"held_ms": round(held * 1000), "wall_ms": round(wall * 1000)}
    log_event("chunk", "chunk committed", **chunk.labels, **counts, **times)
