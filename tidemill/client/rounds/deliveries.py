"""Deliveries: what a round enqueued, what the cloud still knows of it, and what it has lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property

from tidemill.client.site import Site
from tidemill.completion import owners
from tidemill.descriptor import Queue
from tidemill.errors import CallerError
from tidemill.explain.causes import FORGOTTEN, GONE
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Listing, RoundArray
from tidemill.ledger.gate import begun_at
from tidemill.services.backend import ArrayState, DeadLetter

EXPLAINED_CHILDREN = 1000
"""Above this many failed containers, reasons are not looked up: the cloud lists 100 per request."""
SUBMIT_GRACE_SECONDS = 300
"""A round younger than this may still be on its way to the queue: its submit still runs, or the queue's listing is
late. `resume` waits for a tenth of it."""


@dataclass(frozen=True)
class Deliveries:
    """A job's chunks as the cloud sees them.

    Attributes:
        states: Children by state (`waiting`, `starting`, `running`, ...), all rounds together.
        lost: Chunks without a record that the cloud will not deliver again.
        dead: Those of them that the queue has put aside, delivered as often as they may be.
        outstanding: True while the cloud, or a submit that is still young, may deliver something.
        reason: The cloud's own words about what is lost, or else about what waits.
        on_its_way: True while there is a young round that the cloud does not know, wholly or in part.
        held: True while there is such a round of a job that waits for another one.
    """

    states: dict[str, int] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)
    outstanding: bool = False
    reason: str | None = None
    dead: list[int] = field(default_factory=list)
    on_its_way: bool = False
    held: bool = False


def queue_of(site: Site, spec: JobSpec) -> Queue:
    """The queue of a job.

    Raises:
        CallerError: The stack no longer has it.
    """
    queue = site.descriptor.queues.get(spec.queue)
    if queue is None or spec.image not in queue.images:
        raise CallerError(
            f"{spec.job} was sent to queue {spec.queue!r} with image {spec.image!r}, which this pipeline does not have "
            "any more.",
            "Submit it again to another.",
        )
    try:
        return queue.of_market(spec.market)
    except KeyError:
        raise CallerError(
            f"{spec.job} was sent to the market {spec.market!r} of queue {spec.queue!r}, which this pipeline does not "
            "have any more.",
            "Submit it again to another.",
        ) from None


def known_arrays(site: Site, spec: JobSpec) -> list[ArrayState]:
    return site.backend(spec.queue).describe(queue_of(site, spec), spec.job)


def oldest_by_name(states: Sequence[ArrayState]) -> dict[str, ArrayState]:
    """Arrays by name; of twins the oldest, which is the one that counts."""
    return {state.name: state for state in sorted(states, key=lambda s: (s.created_at, s.id), reverse=True)}


def reconcile(
    site: Site,
    ledger: Ledger,
    spec: JobSpec,
    states: Sequence[ArrayState],
    listing: Listing,
    *,
    patient: bool = True,
) -> Deliveries:
    """Compare what was enqueued with what is done and what the cloud knows.

    Args:
        site: The pipeline.
        ledger: The job's ledger.
        spec: The job's spec.
        states: The cloud's view of the job's arrays.
        listing: The store's names, read after `states`, so that a chunk which was committed in between does not count
            as lost.
        patient: Whether to give a young round that the cloud does not know all of its time, and to look up why
            something was lost, and what runs.

    Returns:
        The deliveries; of a cancelled job nothing is lost, for it is not wanted.
    """
    grace = SUBMIT_GRACE_SECONDS if patient else SUBMIT_GRACE_SECONDS / 10
    facts = ChunkFacts(site, ledger, spec, listing)
    seen = _compare(facts, spec, states, listing, grace)
    if not patient:
        return seen
    if seen.lost and (loss := facts.found.get(seen.lost[0])):
        seen = replace(seen, reason=facts.why(seen.lost[0], loss))
    return seen if site.backend(spec.queue).service.sees_children else facts.counted(seen)


def _compare(
    facts: ChunkFacts, spec: JobSpec, known: Sequence[ArrayState], listing: Listing, grace: float
) -> Deliveries:
    states: Counter[str] = Counter()
    by_name = oldest_by_name(known)
    for state in by_name.values():
        states.update(state.states)
    waits = next((state.reason for state in known if state.reason and not state.ended), None)
    outstanding = any(not state.ended for state in known)
    if listing.counts.cancelled:
        return Deliveries(states, outstanding=outstanding, reason=waits)
    begun = begun_at(facts.store, spec)
    if not listing.rounds:
        lost = [] if _young(spec.created_at, facts.now, grace) else list(range(spec.chunks_total))
        return Deliveries(states, lost, not lost, "its submit did not get as far as enqueueing")
    on_its_way = held = False
    for round_ in listing.rounds:
        young = begun is None or _young(max(begun, round_.created_at), facts.now, grace)
        for array in round_.arrays:
            state = by_name.get(array.name)
            for chunk in array.all():
                # A chunk belongs to the newest round that enqueued it.
                facts.found.pop(chunk, None)
            if state is None and young:
                on_its_way, held = begun is not None, begun is None
            else:
                facts.look_at(round_.round, array, state)
    lost = sorted(chunk for chunk in facts.found if chunk in listing.waiting)
    return Deliveries(states, lost, outstanding or on_its_way or held, waits, on_its_way=on_its_way, held=held)


@dataclass(frozen=True)
class Loss:
    """A delivery that the cloud will not make again, with the reason where it is known already."""

    array: RoundArray
    state: ArrayState | None
    reason: str = ""


class ChunkFacts:
    """A job's chunks as the cloud and as the ledger know them.

    Attributes:
        found: By chunk: the delivery that was lost, done or not.
        now: By the cloud's clock, as the times of the job are.
    """

    def __init__(self, site: Site, ledger: Ledger, spec: JobSpec, listing: Listing) -> None:
        self._backend, self._queue, self._job = site.backend(spec.queue), queue_of(site, spec), spec.job
        self._ledger, self._listing, self.store = ledger, listing, site.store
        self.now, self._now = site.account.at(), site.account.now
        self._beating: dict[int, set[int]] = {}
        self.found: dict[int, Loss] = {}

    @cached_property
    def _letters(self) -> list[DeadLetter]:
        return self._backend.dead_letters(self._queue, self._job)

    def _held(self, number: int) -> set[int]:
        if number not in self._beating:
            self._beating[number] = self._ledger.beating_chunks(number, self._now())
        return self._beating[number]

    def look_at(self, number: int, array: RoundArray, state: ArrayState | None) -> None:
        """Find the chunks of an array of a round that the cloud will not deliver again."""
        if state is None or state.ended:
            self.found |= dict.fromkeys(array.all(), Loss(array, state))
        elif self._backend.service.sees_children:
            failed = self._backend.failed_children(state)
            self.found |= {array.chunk(child): Loss(array, state, reason) for child, reason in failed.items()}
        elif open_ := self._listing.waiting.intersection(array.all()):
            dead = {one.chunk: _put_aside(one) for one in self._letters if one.round == number and one.chunk in open_}
            gone = dict.fromkeys(self._gone(number, state, open_), GONE)
            self.found |= {chunk: Loss(array, state, reason) for chunk, reason in (gone | dead).items()}

    def _gone(self, number: int, state: ArrayState, chunks: set[int]) -> set[int]:
        """A round's chunks that neither the queue nor a worker holds."""
        if not self._backend.is_gone(self._queue, state.created_at):
            return set()
        # Read after the queue was asked: a worker commits a chunk before the queue forgets it.
        return chunks - self._held(number) - self._ledger.done_chunks(number)

    def why(self, chunk: int, loss: Loss) -> str:
        """Why a chunk was lost, in the cloud's words where it has any."""
        if loss.reason or loss.state is None:
            return loss.reason or FORGOTTEN
        failed = loss.state.states.get("failed", 0)
        if failed > EXPLAINED_CHILDREN:
            return f"{failed} containers of {loss.array.name} ended without a record"
        if not self._backend.service.sees_children and loss.state.reason:
            return loss.state.reason
        child = loss.array.all().index(chunk)
        return self._backend.failed_children(loss.state).get(child, "its container ended without a record")

    def counted(self, seen: Deliveries) -> Deliveries:
        """The figures of a queue that does not count children: chunks with recent writes of a worker run, others
        wait."""
        if self._listing.counts.cancelled:
            return replace(seen, outstanding=False)
        open_, newest = self._listing.waiting.difference(seen.lost), owners(self._listing.rounds)
        running = sum(chunk in newest and chunk in self._held(newest[chunk]) for chunk in open_)
        dead = {one.chunk for one in self._letters if newest.get(one.chunk) == one.round}.intersection(seen.lost)
        states = {"running": running, "waiting": len(open_) - running}
        return replace(seen, states=states, outstanding=bool(open_), dead=sorted(dead))


def _put_aside(letter: DeadLetter) -> str:
    times = f"{letter.deliveries} times" if letter.deliveries else "as often as it may be"
    return f"it was delivered {times} without a record, and is a dead letter now"


def _young(written: datetime, now: datetime, grace_seconds: float) -> bool:
    return (now - written).total_seconds() < grace_seconds
