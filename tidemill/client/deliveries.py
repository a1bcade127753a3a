"""Deliveries: what a round enqueued, what the cloud still knows of it, and what it has lost."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tidemill import layout
from tidemill.backends import Array, ArrayState, Backend, Shape
from tidemill.client.limit import ends_when_reached
from tidemill.client.site import Site
from tidemill.descriptor import Queue
from tidemill.errors import CallerError
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Round, RoundArray, Snapshot

ARRAYS_A_LOOK = 4
"""Arrays of a job with a limit that are enqueued between two looks at what it has cost."""
EXPLAINED_CHILDREN = 1000
"""Of more failed containers none is looked up for its reason: the cloud lists a hundred a request."""
SUBMIT_GRACE_SECONDS = 300
"""A round younger than this may still be on its way to the queue: somebody's submit runs right now, or the queue's
listing is late. Somebody who types `resume` waits for a tenth of it."""


@dataclass(frozen=True)
class Deliveries:
    """A job's chunks as the cloud sees them.

    Attributes:
        states: Children by state (`waiting`, `starting`, `running`, ...), all rounds together.
        lost: Chunks without a record that nobody will deliver again.
        dead: Those of them that the queue has put aside, delivered as often as they may be.
        outstanding: True while the cloud, or a submit that is still young, may deliver something.
        reason: The cloud's own words about what is lost, or else about what waits.
        on_its_way: True while there is a young round that the cloud does not know, wholly or in part.
    """

    states: dict[str, int] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)
    outstanding: bool = False
    reason: str | None = None
    dead: list[int] = field(default_factory=list)
    on_its_way: bool = False


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
    return queue


def definition_of(site: Site, spec: JobSpec) -> str | None:
    """The job definition that the stack has today for a job's image; None where there is no such thing."""
    return queue_of(site, spec).images[spec.image].job_definition


def write_first_round(
    site: Site, ledger: Ledger, spec: JobSpec, arrays: Sequence[RoundArray], max_usd: float | None = None
) -> Round:
    """A job's first round; the one that stands when somebody was first."""
    made = {"image": spec.image, "definition": definition_of(site, spec), "code": spec.code, "max_usd": max_usd}
    return ledger.add_round(Round(round=0, arrays=list(arrays), **made))


def enqueue(site: Site, spec: JobSpec, round_: Round) -> int:
    """Enqueue what of a round is neither enqueued nor done; returns how many arrays were handed to the cloud.

    SubmitJob has no client token, so names are looked up before, and looked up again after: of two submits at once,
    each sees the other's arrays and ends the younger twin.
    """
    ledger, backend, queue = Ledger(site.store, spec.job), site.backend, queue_of(site, spec)
    prefix = f"{spec.job}-r{round_.round}-a"
    known = {state.name for state in backend.describe(queue, prefix)}
    missing = _missing(ledger, round_, known, forgets=backend.sees_children)
    if not missing:
        return 0
    hashes = {
        "TIDEMILL_JOB_SHA256": _sha256(ledger, layout.spec(spec.job)),
        "TIDEMILL_ROUND_SHA256": _sha256(ledger, layout.round_(spec.job, round_.round)),
    }
    place = {"TIDEMILL_JOB": spec.job, "TIDEMILL_ROUND": str(round_.round)}
    arrays = [Array(array.name, array.all(), place | {"TIDEMILL_ARRAY": str(k)} | hashes) for k, array in missing]
    sent, at_once = 0, ARRAYS_A_LOOK if spec.limit else len(arrays)
    for start in range(0, len(arrays), at_once):
        if spec.limit and ends_when_reached(ledger, spec, spec.user):
            break
        backend.enqueue(_shape(site, spec, queue, round_), some := arrays[start : start + at_once])
        sent += len(some)
    backend.cancel(_twins(backend.describe(queue, prefix)), "enqueued twice")
    return sent


def _missing(ledger: Ledger, round_: Round, known: set[str], *, forgets: bool) -> list[tuple[int, RoundArray]]:
    """Arrays of a round that were never enqueued, each with its number.

    A cloud that `forgets` an array does so only after it has ended, and then there are records of it, or a later round
    has taken over what it lost. Where the store itself remembers, what it does not is enqueued.
    """
    missing = [(k, array) for k, array in enumerate(round_.arrays) if array.name not in known]
    if not missing:
        return []
    seen = ledger.done_chunks(round_.round) if forgets else set[int]()
    for later in ledger.rounds()[round_.round + 1 :]:
        seen.update(chunk for array in later.arrays for chunk in array.all())
    return [(k, array) for k, array in missing if seen.isdisjoint(array.all())]


def _twins(states: Sequence[ArrayState]) -> list[ArrayState]:
    """All but the oldest of arrays with the same name."""
    standing = oldest_by_name(states)
    return [state for state in states if state.id != standing[state.name].id]


def oldest_by_name(states: Sequence[ArrayState]) -> dict[str, ArrayState]:
    """Arrays by name; of twins the oldest, which is the one that stands."""
    return {state.name: state for state in sorted(states, key=lambda s: (s.created_at, s.id), reverse=True)}


def _shape(site: Site, spec: JobSpec, queue: Queue, round_: Round) -> Shape:
    image = queue.images[spec.image]
    if round_.definition:
        image = image.model_copy(update={"job_definition": round_.definition})
    return Shape(
        queue=queue.model_copy(update={"images": {**queue.images, spec.image: image}}),
        image=spec.image,
        resources=spec.resources,
        slots=spec.slots,
        user=spec.user,
        tags={
            "tidemill:team": site.descriptor.team,
            "tidemill:environment": site.descriptor.environment,
            "tidemill:job": spec.job,
        },
    )


def _sha256(ledger: Ledger, name: str) -> str:
    return hashlib.sha256(ledger.store.get(name)).hexdigest()


def reconcile(
    spec: JobSpec, backend: Backend, known: Sequence[ArrayState], snapshot: Snapshot, patient: bool = True
) -> Deliveries:
    """Compare what was enqueued with what is done and what the cloud knows.

    Args:
        spec: The job's spec.
        backend: Asked which children of an array have failed.
        known: What the cloud knows of the job's arrays.
        look: What the store's names say, read after `known`, so that a chunk which was committed in between is not
            taken for lost.
        patient: Whether to give a young round that the cloud does not know all of its time, and to look up why
            something was lost.

    Returns:
        The deliveries; of a cancelled job nothing is lost, for it is not wanted.
    """
    grace = SUBMIT_GRACE_SECONDS if patient else SUBMIT_GRACE_SECONDS / 10
    states: dict[str, int] = {}
    by_name = oldest_by_name(known)
    for state in by_name.values():
        for name, count in state.states.items():
            states[name] = states.get(name, 0) + count
    waits = next((state.reason for state in known if state.reason and not state.ended), None)
    outstanding = any(not state.ended for state in known)
    if snapshot.counts.cancelled:
        return Deliveries(states, outstanding=outstanding, reason=waits)
    if not snapshot.rounds:
        lost = [] if _young(spec.created_at, grace) else list(range(spec.chunks_total))
        return Deliveries(states, lost, not lost, "its submit did not get as far as enqueueing")
    given_up: dict[int, _GivenUp] = {}
    on_its_way = False
    for round_ in snapshot.rounds:
        young = _young(round_.created_at, grace)
        for array in round_.arrays:
            state = by_name.get(array.name)
            for chunk in array.all():
                # A chunk belongs to the newest round that enqueued it.
                given_up.pop(chunk, None)
            if state is None and young:
                on_its_way = True
            else:
                given_up |= dict.fromkeys(_chunks_given_up(array, state, backend), _GivenUp(round_.round, array, state))
    lost = sorted(chunk for chunk in given_up if chunk in snapshot.waiting)
    why = given_up[lost[0]].why(lost[0], backend) if lost and patient else waits
    return Deliveries(states, lost, outstanding or on_its_way, why, on_its_way=on_its_way)


def from_store(site: Site, ledger: Ledger, spec: JobSpec, seen: Deliveries, snapshot: Snapshot) -> Deliveries:
    """Deliveries of a queue that does not count children: what a worker has written of lately runs, the rest waits."""
    if snapshot.counts.cancelled:
        return replace(seen, outstanding=False)
    open_, newest = snapshot.waiting.difference(seen.lost), newest_rounds(snapshot)
    rounds, now = {newest[chunk] for chunk in open_ if chunk in newest}, site.backend.now()
    held = {number: ledger.beating_chunks(number, now) for number in rounds}
    running = sum(chunk in held.get(newest.get(chunk, -1), ()) for chunk in open_)
    letters = site.backend.dead_letters(queue_of(site, spec), spec.job)
    dead = {letter.chunk for letter in letters if newest.get(letter.chunk) == letter.round}.intersection(seen.lost)
    states = {"running": running, "waiting": len(open_) - running}
    return replace(seen, states=states, outstanding=bool(open_), dead=sorted(dead))


def newest_rounds(snapshot: Snapshot) -> dict[int, int]:
    """By chunk: the newest round that enqueued it, to which it belongs."""
    return {chunk: round_.round for round_ in snapshot.rounds for array in round_.arrays for chunk in array.all()}


def _young(written: datetime, grace_seconds: float) -> bool:
    return (datetime.now(UTC) - written).total_seconds() < grace_seconds


@dataclass(frozen=True)
class _GivenUp:
    """The delivery of a chunk that the cloud will not make again."""

    round: int
    array: RoundArray
    state: ArrayState | None

    def why(self, chunk: int, backend: Backend) -> str:
        if self.state is None:
            return "the queue does not know it (any more)"
        failed = self.state.states.get("failed", 0)
        if failed > EXPLAINED_CHILDREN:
            return f"{failed} containers of {self.array.name} ended without a record"
        child = self.array.all().index(chunk)
        return backend.failed_children(self.state).get(child, "its container ended without a record")


def _chunks_given_up(array: RoundArray, state: ArrayState | None, backend: Backend) -> Iterable[int]:
    """Chunks of an array that the cloud will not deliver again, done or not."""
    if state is None or state.ended:
        return array.all()
    return [array.chunk(child) for child in backend.failed_children(state)]
