"""A leased chunk: what is left of it to run, what is in flight, what is done, and its commit."""

from __future__ import annotations

import platform
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from tidemill.job import PLACEHOLDERS, Item, JobSpec, fill
from tidemill.layout import ChunkKey
from tidemill.ledger import Commit, History, Ledger, MarkerWriter, Outcome, Round
from tidemill.ledger.spent import limit_of
from tidemill.manifest import read_chunk
from tidemill.store import Store
from tidemill.version import __version__
from tidemill.worker.leases import Lease
from tidemill.worker.spending import Spending
from tidemill.worker.stop import JobStop, Stop

SAVE_SECONDS = 60.0
"""Between two writes of progress to an object store: each is billed."""
SAVE_SECONDS_LOCAL = 0.3
"""The same on a local folder: what finished a second before a `kill -9` is not run again."""
HEARTBEAT_SECONDS = 60.0
"""Between two writes of the marker where nothing else tells that the chunk is being worked on."""
ALONE_AFTER = 2
"""A worker that serves many jobs gives the machine to an item alone when it was suspected this often: until then it
only keeps it apart from its own chunk, so that a machine which is lost without a word costs the next one little."""


class LeasedJob:
    """What a worker knows of a job in a round: read once, checked against what was enqueued.

    Args:
        store: The job store.
        lease: Says which job and round, and what they must hash to.
        stop: The worker's own flag.
    """

    def __init__(self, store: Store, lease: Lease, stop: Stop | None = None) -> None:
        self.id = lease.job
        self.key = key_of(lease)
        self.stop = JobStop(Stop() if stop is None else stop)
        """Raised when this job's items are to end."""
        self.env: Mapping[str, str] | None = None
        """What its programs see, once its code is on this machine."""
        self.ledger = Ledger(store, lease.job)
        self.spec: JobSpec = self.ledger.spec(lease.job_sha256)
        self.round: Round = self.ledger.round(lease.round, lease.round_sha256)
        self.output_prefix = self.spec.output_prefix(store.uri)
        program = (self.spec.command or [])[:1]
        self.same_program = fill(program, dict.fromkeys(PLACEHOLDERS, "")) == program
        """Whether every item runs the same program, so that one that does not start says something of the job."""
        self.limit = limit_of(self.spec, [self.round])
        """What it may cost."""
        self.item_seconds = 0.0
        """How long an item takes, of late; 0 while that is not known."""
        self.proven = False
        """Whether an item of it has succeeded here."""


def key_of(lease: Lease) -> tuple[str, int, str | None, str | None]:
    """What tells the jobs and rounds apart that a worker knows."""
    return lease.job, lease.round, lease.job_sha256, lease.round_sha256


class ChunkRun:
    """A chunk under this worker's lease.

    Args:
        job: Its job.
        lease: The hold on it.
        many_jobs: Whether the worker serves many jobs: then the marker says every minute that the chunk is being worked
            on, and a suspect has the machine to itself only from the second time on.
        heartbeat_seconds: How often it says so.
    """

    def __init__(
        self, job: LeasedJob, lease: Lease, *, many_jobs: bool = False, heartbeat_seconds: float = HEARTBEAT_SECONDS
    ) -> None:
        self.job, self.lease = job, lease
        self._heartbeat_seconds = heartbeat_seconds if many_jobs else None
        self._alone_after = ALONE_AFTER if many_jobs else 1
        self.number = lease.chunk(job.round)
        self.pending: deque[Item] = deque()
        self.in_flight: set[int] = set()
        self.settled = False
        """Whether a record stands in the store."""
        self._twins: list[Lease] = []
        self.batches = 0
        """How many slots run items of it; see `holds`."""
        self._round = job.round.round
        self._outcomes: dict[int, Outcome] = {}
        self._unsaved: list[Outcome] = []
        self._parts = 0
        self._broken: dict[int, str] = {}
        self._marked: set[int] = set()
        self._marked_alone = False
        self._marked_at = 0.0
        self._history = History()
        self._marker: MarkerWriter | None = None
        self.running: Callable[[ChunkRun], Iterable[int]] = lambda chunk: chunk.in_flight
        """Asked which items run in slots."""
        self.spending: Spending | None = None
        """What it consumes, where its job has a limit."""
        if job.limit:
            key = ChunkKey(job.id, self._round, self.number)
            self.spending = Spending(job.ledger, key, lease.id)
        self._pace = SAVE_SECONDS if job.ledger.store.is_object_store else SAVE_SECONDS_LOCAL
        self._save_at = time.monotonic() + self._pace

    # ---- the lease ----------------------------------------------------------------------------------------------

    def also(self, twin: Lease) -> None:
        """The chunk was delivered here a second time, while it is worked on: one does the work for both."""
        self._twins.append(twin)

    def extend(self) -> None:
        """Hold it longer."""
        for lease in (self.lease, *self._twins):
            lease.extend()

    def ack(self) -> None:
        """It is done, or is not to be done."""
        for lease in (self.lease, *self._twins):
            lease.ack()

    def release(self) -> None:
        """Somebody else may have it at once."""
        for lease in (self.lease, *self._twins):
            lease.release()

    @property
    def complete(self) -> bool:
        """Whether every item has an outcome."""
        return not self.pending and not self.in_flight

    def open(self, slots: int) -> None:
        """Find out what is left to run, and leave the marker of this attempt.

        Args:
            slots: How many items can start at once; 0 while others have every slot.

        Raises:
            DamagedError: An object of the job cannot be decoded.
        """
        ledger = self.job.ledger
        record = ledger.committed(self._round, self.number)
        if record is not None:
            # An attempt that died before it could commit may have left another marker than the record's.
            ledger.derive_marker(record)
            self.settled = True
            return
        items = self._items()
        self._history = ledger.history(self._round, self.number)
        self._outcomes = ledger.carried_over(self._round, self.number)
        if self._history.attempts:
            self._outcomes |= ledger.progress(self._round, self.number)
        for outcome in self._poisoned(items):
            self._outcomes[outcome.index] = outcome
            self._unsaved.append(outcome)
        # What was found out about an item outlives this delivery and this round.
        self.save()
        self.pending.extend(item for item in items if item.index not in self._outcomes)
        self._marker = ledger.marker(self._round, self.number, self.lease.id, self.lease.delivery, self.lease.backend)
        if self._heartbeat_seconds:
            self._marker.beats(self._heartbeat_seconds)
        # A careful attempt names each item before it starts. What cannot start yet is to blame for nothing.
        self._mark({item.index for item in islice(self.pending, 0 if self._history.careful else slots)})

    def _items(self) -> list[Item]:
        items = read_chunk(self.job.ledger.store, self.job.id, self.number)
        subset = self.job.round.runs(self.number)
        if subset is None:
            return items
        chosen = set(subset)
        return [item for item in items if item.index in chosen]

    def _poisoned(self, items: Iterable[Item]) -> Iterable[Outcome]:
        poison = self._history.poison
        for item in items:
            if item.index in poison and item.index not in self._outcomes:
                yield Outcome(
                    index=item.index,
                    uri=item.uri,
                    status="failed",
                    reason="poison",
                    attempts=self._history.deaths[item.index],
                    reclaims=self._history.reclaims[item.index],
                    error=self._why_poison(item.index),
                )

    def _why_poison(self, index: int) -> str:
        if text := self._history.errors.get(index):
            return f"the worker failed on it {self._history.deaths[index]} times: {text}"
        return f"its worker died {self._history.deaths[index]} times while it was running there alone"

    @property
    def any_success(self) -> bool:
        """Whether an item of the chunk has succeeded."""
        return any(outcome.status == "succeeded" for outcome in self._outcomes.values())

    # ---- items --------------------------------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether another item may start. A suspect runs beside no other of its chunk: if it is the cause it shall take
        no neighbour with it, who would be suspected too."""
        if self._broken or not self.pending or not self.in_flight:
            return bool(self.pending) and not self._broken
        suspects = self._history.suspected.keys()
        return self.pending[0].index not in suspects and self.in_flight.isdisjoint(suspects)

    @property
    def careful(self) -> bool:
        """Whether the marker names each item before it starts."""
        return self._history.careful

    @property
    def next_alone(self) -> bool:
        """Whether the next item is to run with nothing beside it, of whatever chunk: if the worker dies then, it is
        known why, and nobody else dies of it again and again."""
        return bool(self.pending) and self._needs_machine(self.pending[0].index)

    @property
    def runs_alone(self) -> bool:
        """Whether such an item runs."""
        suspects = self.batches and self._history.suspected
        return bool(suspects) and any(self._needs_machine(index) for index in self.in_flight)

    @property
    def claims_machine(self) -> bool:
        """Whether such an item runs or is next."""
        return self.next_alone or self.runs_alone

    def _needs_machine(self, index: int) -> bool:
        return self._history.suspected[index] >= self._alone_after

    def holds(self, slots: int) -> None:
        """So many slots run items of it from now on."""
        self.batches = slots
        if self.spending:
            self.spending.holds(slots)

    def write_spent(self, *, ends: bool = False) -> float:
        """Write down what it has consumed, when it is time; returns how many seconds of that are new."""
        return self.spending.write(ends=ends) if self.spending else 0.0

    def take(self) -> Item:
        """The next item, now in flight."""
        return self.take_some(1)[0]

    def take_some(self, count: int, *, alone: bool = False) -> list[Item]:
        """The next items, now in flight: one, when the marker has to name it before it starts.

        Args:
            count: How many at most.
            alone: Whether nothing else runs on this worker, nor will while they do.
        """
        if self._history.careful:
            count = 1
        items = [self.pending.popleft() for _ in range(min(count, len(self.pending)))]
        self.in_flight.update(item.index for item in items)
        if self._history.careful:
            self._mark(set(self.in_flight), alone=alone)
        elif not self._marked:
            # A marker that names nothing says that nobody is to blame.
            self._mark({items[0].index})
        return items

    def pause(self) -> None:
        """Nothing of it runs while an item of another chunk has the machine to itself: say so."""
        if self._marked:
            self._mark(set())

    def broke(self, index: int, text: str) -> None:
        """The worker failed on an item in a way that nothing foresaw: that counts as a death of the item, and the chunk
        is given up when what else runs of it has ended."""
        self._broken[index] = text

    @property
    def is_broken(self) -> bool:
        """Whether the worker failed on one of its items."""
        return bool(self._broken)

    def _running(self) -> set[int]:
        """Items that run at this moment; those that only wait in a slot are not among them."""
        return self.in_flight & set(self.running(self))

    def finished(self, outcome: Outcome) -> None:
        """An item has its outcome."""
        outcome.reclaims += self._history.reclaims[outcome.index]
        self.in_flight.discard(outcome.index)
        self._outcomes[outcome.index] = outcome
        self._unsaved.append(outcome)
        if self._history.careful:
            self.save()

    # ---- the store ----------------------------------------------------------------------------------------------

    def save_if_due(self) -> None:
        """Write progress and marker at their pace, when there is something new."""
        if time.monotonic() < self._save_at:
            return
        self._save_at = time.monotonic() + self._pace * random.uniform(1.0, 1.2)
        self.save()
        every = self._heartbeat_seconds
        beats = every is not None and time.monotonic() >= self._marked_at + every
        running = self._running()
        if self.in_flight and not running:
            # A slot is between two items: the next one is as much to blame as the last.
            running = self._marked
        if running != self._marked or beats:
            self._mark(running, alone=self._marked_alone and running == self._marked)

    def save(self) -> None:
        """Write what was finished since the last time."""
        if self._unsaved:
            self.job.ledger.write_progress(self._round, self.number, self.lease.id, self._parts, list(self._unsaved))
            self._parts += 1
            self._unsaved.clear()
            self.lease.progressed()

    def _mark(self, in_flight: set[int], *, alone: bool = False) -> None:
        if self._marker:
            self._marker.write(in_flight, alone=alone)
            self._marked, self._marked_alone, self._marked_at = in_flight, alone, time.monotonic()

    def drained(self) -> None:
        """Say in the store that a drain interrupts what is in flight."""
        if self._marker:
            self._marker.drained(self._running())

    def left(self, how: str) -> None:
        """Say in the store that this attempt ends in an orderly way without a commit."""
        if self._marker and self._broken:
            self._marker.broke(self._broken)
        elif self._marker:
            self._marker.ended(how)

    def commit(self) -> Commit:
        """Commit the outcomes. The chunk may be acknowledged afterwards."""
        outcomes = [self._outcomes[index] for index in sorted(self._outcomes)]
        commit = self.job.ledger.commit(
            self._round,
            self.number,
            self.lease.id,
            outcomes,
            worker=f"{platform.node()} tidemill/{__version__}",
            backend=self.lease.backend,
            first=not self._history.attempts,
        )
        self.settled = True
        return commit
