"""Looks at a job that cost a few requests each, however large the job is.

A look at every name of a large job takes dozens of requests. A glance lists one sixteenth of them in turn, only while
that part is not complete, and estimates the others from it: when a chunk ends has nothing to do with the sixteenth that
it is in. A job in which nothing happens, or which seems to have ended, gets a whole look now and then.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidemill import layout
from tidemill.client.plan.limit import LimitUse, spent_of
from tidemill.client.rounds.deliveries import Deliveries, known_arrays, oldest_by_name
from tidemill.client.site import Site
from tidemill.client.watch.observation import Observation
from tidemill.client.watch.status import Status, speed_of
from tidemill.client.watch.watched import STILL_SECONDS, WatchedJob
from tidemill.completion import owners
from tidemill.job import JobSpec
from tidemill.ledger import Listing, Round
from tidemill.ledger.listing import RoundNames, combine, read_part
from tidemill.ledger.tombstone import covering
from tidemill.services.backend import ArrayState
from tidemill.store import PAGE

FACTS_SECONDS, MOVING_SECONDS = 60.0, 600.0
"""Between two questions for rounds, a tombstone and the queue's own figures; longer while items end."""
WHOLE_SECONDS = 300.0
"""Between two whole looks at a job in which nothing happens."""
SPENT_SECONDS = 300.0
"""Between two sums of what a job with a limit has consumed."""
FEW_CHUNKS = 16
"""A job with so few open chunks shows the items of running ones, too."""


@dataclass
class _Part:
    """A round's chunks of one shard, or all of them: those with a record when they were listed `at` a time."""

    round: int
    shard: str
    chunks: set[int]
    done: dict[int, float] = field(default_factory=dict)
    failed: dict[int, int] = field(default_factory=dict)
    at: float = 0.0

    def is_open(self, newest: Mapping[int, int]) -> bool:
        """True if a chunk without a record belongs to its round, which is the newest that enqueued it."""
        return any(newest.get(chunk) == self.round for chunk in self.chunks - self.done.keys())

    def ended(self, fresh: _Part) -> float:
        """Its chunks that have ended when the other part was listed, as that one tells."""
        share = len(self.chunks) / len(fresh.chunks)
        if not self.at:
            return share * len(fresh.done)
        times = sorted(fresh.done.values())
        new = len(times) - bisect_right(times, self.at)
        return min(len(self.chunks), len(self.done) + share * new)


class QuickStatus:
    """A job, seen a part at a time.

    Attributes:
        requests: Requests that its looks have taken so far, about.
    """

    def __init__(self, site: Site, spec: JobSpec) -> None:
        self.site, self.spec, self.requests = site, spec, 0
        self._watched = WatchedJob(site, spec)
        self._ledger = self._watched.ledger
        self._parts: list[_Part] = []
        self._fresh: _Part | None = None
        self._known: Sequence[ArrayState] | None = None
        self._rounds: list[Round] = []
        self._tombstone: bytes | None = None
        self._spent: LimitUse | None = None
        self._facts_at = self._asked_at = self._whole_at = self._spent_at = self._moved_at = 0.0
        self._last: Status | None = None

    @property
    def estimates(self) -> bool:
        """True if counts are estimates: of a job in parts that has not ended."""
        return len(self._parts) > len(self._rounds) and self._last is not None and not self._last.ended

    def look(self) -> Status:
        """The job's status so far. Counts of a job in parts are estimates until the last part is complete."""
        before = self.site.store.listings
        status = self._look()
        self.requests += self.site.store.listings - before
        moved = self._last is None or status.progress != self._last.progress
        self._moved_at = time.time() if moved else self._moved_at
        self._facts_at = self._asked_at + (MOVING_SECONDS if moved else FACTS_SECONDS)
        self._last = status
        return status

    def _look(self) -> Status:
        now = time.time()
        if not self.site.store.is_object_store or self.spec.queue not in self.site.descriptor.queues:
            return self.whole()
        if now >= self._facts_at:
            self._ask(now)
        self._list(now)
        listing = self._listing()
        counts, enqueued = listing.counts, any(not each.ended for each in self._known or ())
        quiet = now - max(self._moved_at, self._newest()) > STILL_SECONDS
        if counts.finished or counts.cancelled or not enqueued or quiet:
            if now >= self._whole_at:
                self._whole_at = now + (WHOLE_SECONDS if enqueued else FACTS_SECONDS)
                return self.whole()
            if self._last:
                return self._last
        return self._estimated(listing)

    def whole(self) -> Status:
        """A look at everything, with the reason why the job does not progress."""
        # Of a dozen requests, half are for the reason.
        self.requests += 12 if self.site.store.is_object_store else 0
        return self._watched.look(running=True)[0]

    # ---- a part at a time -------------------------------------------------------------------------------------------

    def _ask(self, now: float) -> None:
        """Read the facts that change seldom."""
        self._asked_at = now
        self._known = known_arrays(self.site, self.spec)
        self._tombstone = self.site.store.find(layout.cancelled(self.spec.job))
        before = len(self._rounds)
        self._rounds = self._ledger.rounds()
        self.requests += 3 + len(self._rounds) - before + (not before)
        for round_ in self._rounds[before:]:
            chunks = set(round_.enqueued())
            shards = layout.SHARDS if len(chunks) > PAGE else [""]
            parts = ({each for each in chunks if not s or f"{each % 16:x}" == s} for s in shards)
            self._parts += [_Part(round_.round, s, some) for s, some in zip(shards, parts, strict=True) if some]
        if self.spec.limit and now >= self._spent_at:
            self._spent_at = now + SPENT_SECONDS
            self._spent = spent_of(self._ledger, self.spec, self._rounds)

    def _list(self, now: float) -> None:
        """List the open part whose listing is the oldest."""
        newest = owners(self._rounds)
        open_ = [part for part in self._parts if part.is_open(newest)]
        if open_:
            part = min(open_, key=lambda one: (one.at, -one.round))
            part.done, part.failed = read_part(self.site.store, self.spec.job, part.round, part.shard)
            part.at = now
            if part.round == len(self._rounds) - 1:
                self._fresh = part

    def _listing(self) -> Listing:
        """The names that were listed so far, added up."""
        read = [RoundNames({}, {}, 0, 0) for _ in self._rounds]
        for part in self._parts:
            read[part.round].done.update(part.done)
            read[part.round].failed.update(part.failed)
        data, newest = self._tombstone, len(self._rounds) - 1
        cancellation = None if data is None else covering(self.site.store, self.spec.job, data, newest)
        return combine(self._rounds, read, self._ledger.index(), cancellation)

    def _newest(self) -> float:
        began = self._rounds[-1].created_at if self._rounds else self.spec.created_at
        return max([began.timestamp(), *(max(part.done.values()) for part in self._parts if part.done)])

    def _estimated(self, listing: Listing) -> Status:
        states = Counter[str]()
        for array in oldest_by_name(self._known or ()).values():
            states.update(array.states)
        active = states["running"] + states["starting"]
        recent = self.site.account.now() - self._newest() < STILL_SECONDS
        moving = recent and self._fresh is not None and bool(self._fresh.done)
        deliveries = Deliveries(states, outstanding=True)
        # Its limit is added up apart: markers of spending are as many as chunks.
        spec = self.spec.model_copy(update={"limit": None})
        state = (
            "running"
            if active or (moving and not self.site.backend(self.spec.queue).service.sees_children)
            else "waiting"
        )
        status = Observation(self.site, self._ledger, spec, listing, deliveries, state, self._known or ()).status()
        status = replace(status, spent=self._spent, items_a_second=None, seconds_left=None)
        if len(listing.waiting) <= FEW_CHUNKS:
            status = self._watched.with_running(status, listing)
        if self._fresh is None:
            return status
        each = self.spec.items_total / self.spec.chunks_total
        chunks = sum(len(part.chunks) for part in self._parts if part.round == self._fresh.round)
        share = chunks / len(self._fresh.chunks)
        rate = speed_of((at, each) for at in self._fresh.done.values())
        status = self._extrapolated(status, self._fresh, each) if share > 1 else status
        if not rate:
            return status
        ended, items = status.progress
        return replace(status, items_a_second=rate * share, seconds_left=round((items - ended) / (rate * share), 1))

    def _extrapolated(self, status: Status, fresh: _Part, each: float) -> Status:
        """A status with what has probably ended in other parts of the newest round since they were listed."""
        others = [part for part in self._parts if part.round == fresh.round and part is not fresh]
        more = sum(part.ended(fresh) - len(part.done) for part in others) * each
        return advanced(status, int(more))


def advanced(status: Status, more: int) -> Status:
    """A status with so many more items that have ended, as many of them failed as of the others. The end of a job is
    never an estimate: one item is always left."""
    more = min(more, max(0, status.remaining - 1))
    ended = status.succeeded + status.failed
    failed = round(more * status.failed / ended) if ended else 0
    left = status.remaining - more
    seconds = status.seconds_left and status.seconds_left * left / status.remaining
    return replace(
        status,
        succeeded=status.succeeded + more - failed,
        failed=status.failed + failed,
        remaining=left,
        seconds_left=seconds,
    )
