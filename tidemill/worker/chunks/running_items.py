"""Items of the chunks that a worker holds: started in slots, ended, their outcomes recorded."""

from __future__ import annotations

import queue
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from tidemill.capacity import WORKER_MIB
from tidemill.descriptor import Resources, WorkerExit
from tidemill.errors import StoreUnavailableError
from tidemill.job import Item
from tidemill.ledger import Outcome
from tidemill.machine import Capacity
from tidemill.state import SupersededError
from tidemill.store.errors import as_exception
from tidemill.worker.chunks.chunk import ChunkRun
from tidemill.worker.chunks.held_chunks import HeldChunks
from tidemill.worker.chunks.jobs import LeasedJob
from tidemill.worker.items.runners import Runners
from tidemill.worker.items.task import Task
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.slots import Slot, SlotPool
from tidemill.worker.machine.stop import Stop
from tidemill.worker.output import log, log_event, redacted, redacted_end

BATCH_SECONDS = 0.1
"""How long the items that a slot takes at once should last together."""
BATCH_ITEMS = 512
ERROR_CHARACTERS = 500
"""Length of an item's error in the worker's log; the record keeps more."""
TRACE_CHARACTERS = 4000
MOST_THREADS = 1024
AHEAD_SECONDS = 0.25
"""Inputs are fetched for about so much work ahead: longer than a store takes to answer."""


class _Again(NamedTuple):
    """An item that runs again: as which attempt, and with how much memory, where it needs more."""

    item: Item
    attempt: int
    memory_mib: int | None


_Ended = tuple[ChunkRun, Outcome | _Again | StoreUnavailableError]
"""An item's chunk with its outcome, with the attempt that follows, or with the error of the store that ends the
worker."""


@dataclass
class Batch:
    """Items that run in a slot one after the other."""

    chunk: ChunkRun
    tasks: list[Task]
    slot: Slot
    seconds: float = 0.0
    error: Exception | None = None


class _ChunkOutcomes:
    """How items of a chunk end: left for the loop, which polls often enough while anything runs."""

    def __init__(self, chunk: ChunkRun, ended: deque[_Ended], wake: Callable[[], None]) -> None:
        self._chunk, self._ended, self._wake = chunk, ended, wake

    def __call__(self, outcome: Outcome) -> None:
        self._ended.append((self._chunk, outcome))
        # Its slot is long at work on another item. Only the last outcomes of a chunk, and the first of a job, are
        # waited for.
        if outcome.index in self._chunk.sending and not (self._chunk.pending and self._chunk.job.proven):
            self._wake()

    def sending(self, task: Task) -> None:
        self._chunk.sending.add(task.item.index)

    def unavailable(self, task: Task, error: StoreUnavailableError) -> None:
        self._chunk.sending.discard(task.item.index)
        self._ended.append((self._chunk, error))
        self._wake()

    def again(self, task: Task, attempt: int, memory_mib: int | None = None) -> None:
        self._ended.append((self._chunk, _Again(task.item, attempt, memory_mib)))
        self._wake()


class RunningItems:
    """Runs the items of held chunks. `size` is a number of slots, or the machine's capacity; None lets the first
    job decide."""

    def __init__(
        self,
        held: HeldChunks,
        runners: Runners,
        scratch: Scratch,
        stop: Stop,
        size: Capacity | int | None,
        *,
        many_jobs: bool,
    ) -> None:
        self._held, self._runners, self._scratch, self._stop, self._many_jobs = held, runners, scratch, stop, many_jobs
        self.slots = SlotPool(size, self._slot, runners.close, WORKER_MIB) if size else None
        self._ended: deque[_Ended] = deque()
        self._events: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        # A thread is created when no idle one is left.
        self.threads = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="slot")
        stop.on_raise(self.wake)

    @property
    def busy(self) -> bool:
        """True while programs run, or outputs are on their way."""
        return self.slots is not None and (self.slots.busy or any(chunk.sending for chunk in self._held))

    def wake(self, _: Future[bool] | None = None) -> None:
        self._events.put(None)

    def free(self, item: Resources) -> int:
        return self.slots.left(item) if self.slots else 1

    def reserve(self, job: LeasedJob) -> int:
        """How many items of a job could start now, on a worker whose slots the first job decides."""
        if self.slots is None:
            slot_mib = job.spec.resources.memory_mib
            self.slots = SlotPool(job.spec.slots, self._slot, self._runners.close, slot_mib=slot_mib)
        job.most_mib = self.slots.most_memory_mib
        return self.slots.left(job.spec.resources)

    def close(self) -> None:
        """Wait for the slots' threads, and end what is loaded in slots."""
        self.threads.shutdown(wait=True, cancel_futures=True)
        if self.slots:
            self.slots.close()

    def _slot(self, number: int) -> Slot:
        env = {"TIDEMILL_PORT_BASE": str(self._scratch.port_base())}
        if self._scratch.cache:
            env["TIDEMILL_CACHE"] = self._scratch.cache
        return Slot(number, self._scratch.folder / f"slot-{number}", env)

    # ---- the start ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Fill the slots with items of the oldest chunk first, so that small items do not overtake a large one
        forever."""
        if self._stop.leaving:
            return
        left: int | None = None
        for chunk in self._held:
            if any(one.runs_alone for one in self._held):
                return
            if chunk.job.stop.raised or not self._held.outlasts(chunk.job):
                continue
            assert self.slots is not None
            side_by_side = self.slots.count(chunk.job.spec.resources)
            if left is None and not self._start_chunk(chunk, self.slots, side_by_side):
                return
            ahead = self.ahead(chunk) if left is None else min(left, self.ahead(chunk))
            for item in islice(chunk.pending, ahead):
                if item.index not in chunk.prefetched:
                    chunk.prefetched.add(item.index)
                    self._runners.prefetch(chunk.task(item))
            if chunk.ready or left is not None:
                # The items of the next chunk do not start yet, but they are fetched.
                left = ahead - len(chunk.pending)
                if left <= 0:
                    return

    def _start_chunk(self, chunk: ChunkRun, slots: SlotPool, side_by_side: int) -> bool:
        """Start items of a chunk in free slots; returns whether items of other chunks may start next to them."""
        while chunk.ready and not self._stop.raised:
            if chunk.next_alone and slots.busy:
                return False
            slot = slots.take(chunk.job.key, chunk.next_needs)
            if slot is None:
                break
            if isinstance(slot.chunk, ChunkRun):
                slot.chunk.slots.pop(slot.number, None)
            slot.chunk, slot.current = chunk, None
            chunk.slots[slot.number] = slot
            items = chunk.take(self._batch_size(chunk, side_by_side), alone=self._makes_room(chunk, side_by_side))
            batch = Batch(chunk, [chunk.task(item) for item in items], slot)
            chunk.holds(1, batch.tasks[0].spec.resources)
            self.threads.submit(self._run_batch, batch)
        return True

    def ahead(self, chunk: ChunkRun) -> int:
        """How many items are fetched before a slot is free: one for each slot, and more of those that are short."""
        if not chunk.stages_input or self.slots is None:
            return 0
        slots = 1 if chunk.one_by_one else self.slots.count(chunk.job.spec.resources)
        seconds = chunk.job.item_seconds
        return slots * max(1, min(self._runners.most_ahead(slots), int(AHEAD_SECONDS / seconds) if seconds else 1))

    def _makes_room(self, chunk: ChunkRun, slots: int) -> bool:
        """True if a careful chunk's next item will have this worker to itself until it ends. If so, the markers of the
        others say that nothing of theirs runs."""
        alone = chunk.history.careful and (chunk.next_alone or (slots == 1 and not self._many_jobs))
        for other in self._held if alone else ():
            if other is not chunk:
                other.pause()
        return alone

    def _batch_size(self, chunk: ChunkRun, slots: int) -> int:
        """Items that a slot takes at once: many short ones, so that they do not wait for us, or one long one."""
        seconds = chunk.job.item_seconds
        if not seconds or not chunk.job.proven:
            return 1
        most = self._runners.most_ahead(slots) if chunk.stages_input else BATCH_ITEMS
        return max(1, min(int(BATCH_SECONDS / seconds), most, -(-len(chunk.pending) // slots)))

    def _run_batch(self, batch: Batch) -> None:
        """In a slot's thread. Outcomes are left for the loop, which is woken only at the end: it polls often enough."""
        chunk, started = batch.chunk, time.monotonic()
        try:
            self._runners.run(batch.tasks, batch.slot, _ChunkOutcomes(chunk, self._ended, self.wake))
        except BaseException as error:  # a slot that dies silently would hang the chunk
            batch.error = as_exception(error)
        batch.seconds = time.monotonic() - started
        self._events.put(batch)

    # ---- the end ------------------------------------------------------------------------------------------------

    def handle(self, seconds: float) -> None:
        """Take in what ended in the slots, waiting so many seconds for it, and refill the slots before anything is
        written.

        Raises:
            StoreUnavailableError: A slot met a store that takes nothing, once all that ended is taken in.
        """
        batches = self._ended_batches(seconds)
        away = [batch.error for batch in batches if isinstance(batch.error, StoreUnavailableError)]
        ended = [self._ended.popleft() for _ in range(len(self._ended))]
        for batch in batches:
            assert self.slots is not None
            self.slots.give(batch.slot)
            batch.chunk.holds(-1, batch.tasks[0].spec.resources)
            if isinstance(batch.error, SupersededError):
                log(f"left to another worker: {batch.error}", "warning", **batch.chunk.labels)
                batch.chunk.superseded = True
                continue
            if batch.error is not None:
                if not isinstance(batch.error, StoreUnavailableError):
                    self._broke(batch, batch.error)
                continue
            mean = batch.seconds / len(batch.tasks)
            earlier = batch.chunk.job.item_seconds
            # A first item pays for imports and caches, so the mean adapts fast.
            batch.chunk.job.item_seconds = mean if not earlier else 0.3 * earlier + 0.7 * mean
        # Until an item has succeeded, each failure is handled first: it may end the job.
        away += [what for _, what in ended if isinstance(what, StoreUnavailableError)]
        if not (away or self._stop.raised) and all(chunk.job.proven for chunk in self._held):
            self.start()
        for chunk, what in ended:
            if chunk not in self._held or isinstance(what, StoreUnavailableError):
                continue
            if isinstance(what, Outcome):
                self._record(chunk, what)
            else:
                _again(chunk, what)
        for chunk in {chunk for chunk, _ in ended}:
            self._held.settle(chunk)
        if away and not self._stop.raised:
            raise away[0]

    def _ended_batches(self, seconds: float) -> list[Batch]:
        """Batches that have ended; waits for the first."""
        ended: list[Batch] = []
        try:
            event = self._events.get(timeout=max(0.0, seconds))
            while True:
                if event is not None:
                    ended.append(event)
                event = self._events.get_nowait()
        except queue.Empty:
            return ended

    def _broke(self, batch: Batch, error: Exception) -> None:
        """A slot failed unexpectedly: that counts as a death of the item that was running in it."""
        index = batch.slot.current
        item = batch.tasks[0].item.index if index is None else index
        text = redacted(f"{type(error).__name__}: {error}")[:ERROR_CHARACTERS]
        trace = "".join(traceback.format_exception(error))[-TRACE_CHARACTERS:]
        code = int(WorkerExit.BROKEN)
        message = f"the worker failed on an item: {text}"
        log_event("worker_error", message, "error", **batch.chunk.labels, item=item, code=code, traceback=trace)
        batch.chunk.broke(item, text)

    def _record(self, chunk: ChunkRun, outcome: Outcome) -> None:
        job = chunk.job
        if outcome.error:
            outcome.error = redacted_end(outcome.error)
        if outcome.status == "failed":
            log_event("item", "item failed", "warning", **chunk.labels, item=outcome.index, **_failure(outcome))
        chunk.finished(outcome)
        job.proven = job.proven or outcome.status == "succeeded"
        if outcome.reason == "start" and job.same_program and not chunk.any_success:
            with self._held.on_behalf_of(job):
                job.ledger.start_failed(job.round.round, outcome.error or "")
            if job.ledger.is_cancelled(job.round.round):
                self._held.cancel(job)


def _again(chunk: ChunkRun, again: _Again) -> None:
    """An item runs again, unless the job ends."""
    chunk.sending.discard(again.item.index)
    if not chunk.job.stop.raised:
        if again.memory_mib is not None:
            needs = f"over its memory limit: it is tried again with {again.memory_mib} MiB"
            log(needs, **chunk.labels, item=again.item.index)
        chunk.runs_again(again.item, again.attempt, again.memory_mib)


def _failure(outcome: Outcome) -> dict[str, object]:
    """Why an item failed."""
    error = (outcome.error or "")[-ERROR_CHARACTERS:]
    return {
        "status": outcome.status,
        "reason": outcome.reason,
        "attempts": outcome.attempts,
        "error": error,
    }
