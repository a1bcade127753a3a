"""A leased chunk: what is left of it to run, what is in flight, what is done, and its commit."""

from __future__ import annotations

import platform
import random
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from tidemill.capacity import more_memory_mib
from tidemill.descriptor import Resources
from tidemill.job import Item, JobSpec
from tidemill.ledger import Commit, History, Outcome
from tidemill.ledger.digest import UNKNOWN, RanOn
from tidemill.manifest import read_chunk
from tidemill.version import __version__
from tidemill.worker.chunks.digest_observer import DigestObserver
from tidemill.worker.chunks.jobs import LeasedJob
from tidemill.worker.chunks.metrics import MetricLog
from tidemill.worker.chunks.observers import HEARTBEAT_SECONDS, ChunkObserver, Marker, Progress
from tidemill.worker.items.task import Task
from tidemill.worker.lease import Lease
from tidemill.worker.machine.boot import booted_at
from tidemill.worker.machine.slots import Slot

SAVE_SECONDS = 60.0
"""Seconds between two writes of progress to an object store: each is billed."""
SAVE_SECONDS_LOCAL = 0.3
"""The same on a local folder: what finished a second before a `kill -9` is not run again."""
ALONE_AFTER = 2
"""A worker that serves many jobs gives the machine to an item alone when it was suspected this often: until then it
only keeps it apart from its own chunk, so that a machine which is lost without a word costs the next one little."""


class HeldLeases:
    """The hold on a chunk: its lease, and those by which it was delivered here again while it was worked on."""

    def __init__(self, lease: Lease) -> None:
        self._leases = [lease]

    def add(self, lease: Lease) -> None:
        self._leases.append(lease)

    def extend(self) -> None:
        for lease in self._leases:
            lease.extend()

    def ack(self) -> None:
        for lease in self._leases:
            lease.ack()

    def release(self) -> None:
        for lease in self._leases:
            lease.release()

    def abandon(self) -> None:
        for lease in self._leases:
            lease.abandon()


class ChunkRun:
    """A chunk under this worker's lease.

    Args:
        job: Its job.
        lease: The worker's hold on it.
        many_jobs: Whether the worker serves many jobs: then the marker regularly says that the chunk is worked on,
            and a suspect gets the machine to itself only from the second time on.
        heartbeat_seconds: How often the marker says so.
        observers: Follow the chunk, in addition to those that write its progress and its marker.
        machine: Where the worker is.
    """

    def __init__(
        self,
        job: LeasedJob,
        lease: Lease,
        *,
        many_jobs: bool = False,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        observers: Sequence[ChunkObserver] = (),
        machine: RanOn = UNKNOWN,
    ) -> None:
        self.job, self.lease, self.leases = job, lease, HeldLeases(lease)
        self._alone_after = ALONE_AFTER if many_jobs else 1
        self.number = lease.chunk(job.round)
        self.pending: deque[Item] = deque()
        self.in_flight: set[int] = set()
        self.slots: dict[int, Slot] = {}
        """By number: the slots whose last items are of this chunk."""
        self.one_by_one = job.spec.max_parallel is not None
        """Whether its items run one after the other: a job whose number of chunks is its limit."""
        self.stages_input = job.spec.stages_input
        self.prefetched: set[int] = set()
        """Items whose inputs are, or were, on their way before a slot was free."""
        self.batches = 0
        """How many slots run items of it; see `holds`."""
        self.sending: set[int] = set()
        """Items whose programs have ended and whose outputs are on their way; slots' threads add to it."""
        self.attempts: dict[int, int] = {}
        """By item: its next attempt, where outputs could not be sent or memory was short."""
        self.memory: dict[int, int] = {}
        """By item: its memory, where it was killed with less."""
        self._grown: Counter[int] = Counter()
        """By item: attempts that were killed for memory and followed by one with more."""
        self._shares = 0.0
        self.settled = False
        """Whether a record stands in the store."""
        self.broken: dict[int, str] = {}
        """By item: how the worker failed on it."""
        self.superseded = False
        """Whether another worker has begun with an item of it."""
        self.history = History()
        self._outcomes: dict[int, Outcome] = {}
        self._ledger = ledger = job.ledger.chunk(job.round.round, self.number)
        pace = SAVE_SECONDS if ledger.store.is_object_store else SAVE_SECONDS_LOCAL
        writer = ledger.marker(lease.id, lease.delivery, lease.backend, asdict(machine) | {"booted_at": booted_at()})
        progress = Progress(ledger, pace)
        self._metrics = MetricLog(ledger, lease, job.metrics, pace) if job.metrics else None
        first = [self._metrics] if self._metrics else []
        self._digest = DigestObserver(machine)
        marker = Marker(writer, pace, heartbeat_seconds if many_jobs else None, self._digest.interrupted)
        self.observers = [*first, *observers, progress, marker, self._digest]

    @property
    def labels(self) -> dict[str, Any]:
        return {"job": self.job.id, "chunk": self.number, "lease": self.lease.id}

    @property
    def complete(self) -> bool:
        return not self.pending and not self.in_flight

    def open(self, slots: int) -> None:
        """Find out what is left to run, and write the marker of this attempt. So many items can start at once."""
        record = self._ledger.committed()
        if record is not None:
            # An attempt that died before its commit may have left a marker that differs from the record's.
            self._ledger.derive_marker(record)
            self.settled = True
            return
        items = read_chunk(self._ledger.store, self.job.id, self.number)
        subset = self.job.round.runs(self.number)
        if subset is not None:
            chosen = set(subset)
            items = [item for item in items if item.index in chosen]
        self.history = self._ledger.history()
        self._outcomes = self._ledger.carried_over()
        if self.history.attempts:
            self._outcomes |= self._ledger.progress()
        left = (item for item in items if item.index not in self._outcomes)
        poisoned = list(_poisoned(self.history, left, self.job.spec.state is not None))
        self._outcomes |= {outcome.index: outcome for outcome in poisoned}
        self.pending.extend(item for item in items if item.index not in self._outcomes)
        for observer in self.observers:
            observer.on_open(self, poisoned, 1 if self.one_by_one else slots)

    # ---- items --------------------------------------------------------------------------------------------------

    @property
    def any_success(self) -> bool:
        return any(outcome.status == "succeeded" for outcome in self._outcomes.values())

    @property
    def running(self) -> set[int]:
        """Items that run at this moment, without those that only wait in a slot."""
        if not self.slots:
            return set(self.in_flight)
        return self.in_flight & {slot.current for slot in self.slots.values()}

    @property
    def ready(self) -> bool:
        """True if another item may start. A suspect runs without others of its chunk: if it kills the worker, no
        neighbour becomes suspected with it."""
        if self.broken or self.superseded:
            return False
        if not self.pending or not self.in_flight:
            return bool(self.pending)
        if self.one_by_one:
            return self.in_flight <= self.sending
        suspects = self.history.suspected.keys()
        return self.pending[0].index not in suspects and self.in_flight.isdisjoint(suspects)

    @property
    def next_alone(self) -> bool:
        """True if the next item must run alone on this machine. If the worker dies then, the cause is known and no
        other item is blamed."""
        return bool(self.pending) and self._needs_machine(self.pending[0].index)

    @property
    def runs_alone(self) -> bool:
        """True while such an item runs."""
        suspects = self.batches and self.history.suspected
        return bool(suspects) and any(self._needs_machine(index) for index in self.in_flight)

    @property
    def claims_machine(self) -> bool:
        return self.next_alone or self.runs_alone

    def _needs_machine(self, index: int) -> bool:
        return self.history.suspected[index] >= self._alone_after

    @property
    def next_needs(self) -> Resources:
        """The needs of the next item."""
        return self._spec_of(self.pending[0].index).resources

    def _spec_of(self, index: int) -> JobSpec:
        spec, memory = self.job.spec, self.memory.get(index)
        if memory is None:
            return spec
        return spec.model_copy(update={"resources": spec.resources.model_copy(update={"memory_mib": memory})})

    def holds(self, slots: int, needs: Resources) -> None:
        """Note that so many more slots run its items from now on, for what items need: one with twice the memory that
        the job asks for counts as two."""
        self.batches += slots
        self._shares = self._shares + slots * needs.memory_mib / self.job.asked_mib if self.batches else 0.0
        for observer in self.observers:
            observer.on_slots(self._shares)

    def take(self, count: int = 1, *, alone: bool = False) -> list[Item]:
        """Put the next items in flight and return them: only one, if the marker has to name it before it starts."""
        items = [self.pending.popleft()]
        while not self.history.careful and len(items) < count and self.pending:
            if self.memory.keys() & {items[0].index, self.pending[0].index}:
                break
            items.append(self.pending.popleft())
        self.in_flight.update(item.index for item in items)
        for observer in self.observers:
            observer.on_start(self, items, alone=alone)
        return items

    def task(self, item: Item) -> Task:
        job = self.job
        watch = self._metrics.watch(item.index, self.labels) if self._metrics else None
        where = (job.output_prefix, job.env or {}, job.stop, job.inputs, watch, self._digest.waits)
        run = str(self.lease.backend.get("run", ""))
        # A careful attempt writes down each item's end before the next one starts.
        how = {"attempt": self.attempts.get(item.index, 1), "overlaps": not self.history.careful}
        spec, most = self._spec_of(item.index), min(job.spec.memory_max_mib or 0, job.most_mib)
        how["more_memory_mib"] = more_memory_mib(spec.resources.memory_mib, most)
        how["more_attempts"] = self._grown[item.index]
        return Task(job.id, self.number, self.lease.id, spec, item, *where, round=job.round.round, run=run, **how)

    def runs_again(self, item: Item, attempt: int, memory_mib: int | None) -> None:
        """An item needs another attempt. One that needs more memory waits for the others of its chunk: slots run as
        long as possible without waiting for room."""
        self.in_flight.discard(item.index)
        self.attempts[item.index] = attempt
        if memory_mib is None:
            self.pending.appendleft(item)
            return
        self.memory[item.index] = memory_mib
        self._grown[item.index] += 1
        self.pending.append(item)

    def pause(self) -> None:
        """Its items pause while an item of another chunk has the machine to itself."""
        for observer in self.observers:
            observer.on_pause()

    def broke(self, index: int, text: str) -> None:
        """The worker failed on an item. That counts as the item's death; the chunk is given up when its other items
        end."""
        self.broken[index] = text

    def finished(self, outcome: Outcome) -> None:
        outcome.reclaims += self.history.reclaims[outcome.index]
        outcome.memory_mib = self.memory.get(outcome.index, self.job.round.memory_mib)
        self.in_flight.discard(outcome.index)
        self.sending.discard(outcome.index)
        self._outcomes[outcome.index] = outcome
        for observer in self.observers:
            observer.on_item(self, outcome)

    # ---- the store ----------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Let each observer write, at its pace, what is new."""
        now = time.monotonic()
        for observer in self.observers:
            if now >= observer.due_at:
                observer.due_at = now + observer.pace * random.uniform(1.0, 1.2)
                observer.on_tick(self)

    def end(self, how: str | None = None) -> None:
        """Write what is done: this attempt ends without a commit.

        Args:
            how: The end that the marker states: ``drained``, ``cancelled``, ``released``, ``broke``, ``refused`` or
                ``store``; None when a drain has stated it already.
        """
        # The marker first: the machine may be gone in a moment.
        for observer in reversed(self.observers):
            observer.on_end(self, how)

    def commit(self) -> Commit:
        """Commit the outcomes. The chunk may be acknowledged afterwards."""
        for observer in self.observers:
            observer.on_commit()
        outcomes = [self._outcomes[index] for index in sorted(self._outcomes)]
        commit = self._ledger.commit(
            self.lease.id,
            outcomes,
            worker=f"{platform.node()} tidemill/{__version__}",
            backend=self.lease.backend,
            first=not self.history.attempts,
            run=self._digest.run(),
        )
        self.settled = True
        return commit


def _poisoned(history: History, items: Iterable[Item], with_state: bool) -> Iterator[Outcome]:
    # A machine that vanishes takes days of work with it only if the item has no state; if it has, another rule ends
    # items that get nowhere.
    poison = history.poison & history.errors.keys() if with_state else history.poison
    for item in items:
        if item.index in poison:
            deaths, text = history.deaths[item.index], history.errors.get(item.index)
            yield Outcome(
                index=item.index,
                uri=item.uri,
                status="failed",
                reason="poison",
                attempts=deaths,
                reclaims=history.reclaims[item.index],
                error=f"the worker failed on it {deaths} times: {text}"
                if text
                else f"its worker died {deaths} times while it was running there alone",
            )
