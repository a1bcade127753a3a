"""Handing a round's arrays to the cloud: each once, however often a submit is repeated, and none before it is due."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace

from tidemill import layout
from tidemill.client.journal import known_spec
from tidemill.client.plan.chunks import arrays_of
from tidemill.client.plan.limit import ends_when_reached
from tidemill.client.rounds.deliveries import known_arrays, oldest_by_name, queue_of, reconcile
from tidemill.client.site import Site
from tidemill.descriptor import Queue
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Round, RoundArray
from tidemill.ledger.gate import begin, begun_at, look
from tidemill.ledger.shared import SharedOutcomes
from tidemill.ledger.start_limit import has_started, start_limit
from tidemill.services.backend import Array, ArrayAddress, ArrayState, Shape

ARRAYS_A_LOOK = 4
"""Arrays of a job with a limit that are enqueued between two looks at what it has cost."""
LOOK_SECONDS = 2.0
"""Seconds between two polls for a round that the queue does not show yet."""


def definition_of(site: Site, spec: JobSpec) -> str | None:
    """The job definition that the stack has today for a job's image; None where the cloud has none."""
    return queue_of(site, spec).images[spec.image].job_definition


def write_first_round(site: Site, ledger: Ledger, spec: JobSpec, max_usd: float | None = None) -> Round:
    """A job's first round, or the one that another submit wrote first."""
    chunks, items = _to_run(ledger, spec)
    arrays = arrays_of(spec.job, 0, chunks, site.backend(spec.queue).service.array_chunks)
    definition, code = definition_of(site, spec), {"code": spec.code, "code_origin": spec.code_origin}
    made = {
        "image": spec.image,
        "definition": definition,
        **code,
        "max_usd": max_usd,
        "shared": spec.shared and spec.shared.document,
    }
    first = Round(round=0, arrays=arrays, items=items, created_at=site.account.at(), **made)
    return ledger.add_round(first, apart=True)


def _to_run(ledger: Ledger, spec: JobSpec) -> tuple[Sequence[int], dict[int, list[int]] | None]:
    """The chunks with items that run, and by chunk which, where that is not all of them."""
    if spec.shared is None:
        return range(spec.chunks_total), None
    index, shared = ledger.index(), SharedOutcomes.load(ledger.store, spec.job, spec.shared.document)
    # A removal that has not seen this job's spec has written its mark before; one that comes later gives way.
    there = [known_spec(ledger.store, source.job) is not None for source in shared.sources]
    chunks, items = list[int](), dict[int, list[int]]()
    for chunk in range(index.chunks):
        frame = index.frame(chunk)
        whole = range(frame.first, frame.first + frame.items)
        left = set(whole)
        for run in shared.runs(whole.start, whole.stop):
            if there[run.source]:
                left.difference_update(range(run.first, run.first + run.items))
        if left:
            chunks.append(chunk)
        if left and len(left) < len(whole):
            items[chunk] = sorted(left)
    return chunks, items or None


def enqueue(site: Site, spec: JobSpec, round_: Round) -> int:
    """Enqueue what of a round is neither enqueued nor done; returns how many arrays were handed to the cloud.

    SubmitJob has no client token, so names are looked up before, and looked up again after: of two submits at once,
    each sees the other's arrays and ends the younger twin.
    """
    ledger, backend, queue = Ledger(site.store, spec.job), site.backend(spec.queue), queue_of(site, spec)
    names = {state.name for state in backend.describe(queue, spec.job, round_.round)}
    if site.local and not ledger.counts().finished:
        backend.begin(spec.job)
    missing = _missing(ledger, round_, names, forgets=backend.service.sees_children)
    if not missing:
        return 0
    spec_sha256 = _sha256(ledger, layout.spec(spec.job))
    round_sha256 = _sha256(ledger, layout.round_(spec.job, round_.round))
    arrays = [
        Array(array.name, array.all(), ArrayAddress(spec.job, round_.round, k, spec_sha256, round_sha256))
        for k, array in missing
    ]
    shape = _shape(site, spec, queue, round_)
    while (due := _due(site, spec)) is not True:
        if due is None:
            return 0
        if not backend.service.most_dependencies:
            backend.hold(shape, arrays, spec.after)
            return 0
        blockers = _blockers(site, spec)
        if blockers is None:
            return 0
        if blockers:
            shape = replace(shape, depends_on=blockers[-backend.service.most_dependencies :])
            break
    if (limit := start_limit(spec, round_)) and not has_started(ledger):
        # Before anything is enqueued: a submit that dies next leaves a job that ends.
        backend.limit_start(limit)
    return _send(site, spec, ledger, shape, arrays)


def _send(site: Site, spec: JobSpec, ledger: Ledger, shape: Shape, arrays: Sequence[Array]) -> int:
    sent, at_once, backend = 0, ARRAYS_A_LOOK if spec.limit else len(arrays), site.backend(spec.queue)
    for start in range(0, len(arrays), at_once):
        if spec.limit and ends_when_reached(ledger, spec, spec.user):
            break
        some = arrays[start : start + at_once]
        backend.enqueue(shape, some)
        sent += len(some)
    number = arrays[0].address.round
    states = backend.describe(shape.queue, spec.job, number)
    standing = oldest_by_name(states)
    backend.cancel([state for state in states if state.id != standing[state.name].id], "enqueued twice")
    return sent


def _due(site: Site, spec: JobSpec) -> bool | None:
    """True if a job may run; None when there is nothing to do here: it never may, or another client lets it begin."""
    if begun_at(site.store, spec) is not None:
        return True
    gate = look(site.store, spec.after)
    if gate.never:
        return None
    return (begin(site.store, spec.job, site.account.user(), site.account.at()) or None) if gate.open else False


def _blockers(site: Site, spec: JobSpec) -> list[str] | None:
    """Ids of the arrays that the jobs still run which a job waits for, oldest first.

    None when their end would not mean that these jobs are complete: then the arrays would start for nothing.
    """
    arrays: list[ArrayState] = []
    for after in spec.after:
        ledger = Ledger(site.store, after.job)
        other = ledger.spec()
        if other.queue not in site.descriptor.queues:
            return None
        while True:
            states = known_arrays(site, other)
            listing = ledger.listing()
            if listing.counts.finished:
                break
            seen = reconcile(site, ledger, other, states, listing, patient=False)
            if listing.counts.cancelled or seen.lost or seen.held:
                return None
            if not seen.on_its_way:
                arrays += [state for state in oldest_by_name(states).values() if not state.ended]
                break
            time.sleep(LOOK_SECONDS)
    return [state.id for state in sorted(arrays, key=lambda state: (state.created_at, state.id))]


def _missing(ledger: Ledger, round_: Round, names: set[str], *, forgets: bool) -> list[tuple[int, RoundArray]]:
    """Arrays of a round that were never enqueued, each with its number.

    A cloud that `forgets` an array does so only after it has ended, and then there are records of it, or a later round
    has taken over what it lost. Where the store itself remembers, what it does not is enqueued.
    """
    missing = [(k, array) for k, array in enumerate(round_.arrays) if array.name not in names]
    if not missing:
        return []
    seen = ledger.done_chunks(round_.round) if forgets else set[int]()
    for later in ledger.rounds()[round_.round + 1 :]:
        seen.update(chunk for array in later.arrays for chunk in array.all())
    return [(k, array) for k, array in missing if seen.isdisjoint(array.all())]


def _shape(site: Site, spec: JobSpec, queue: Queue, round_: Round) -> Shape:
    image, spec = queue.images[spec.image], spec.with_memory(round_.memory_mib)
    if round_.definition:
        image = image.model_copy(update={"job_definition": round_.definition})
    return Shape(
        queue=queue.model_copy(update={"images": {**queue.images, spec.image: image}}),
        image=spec.image,
        resources=spec.resources,
        slots=spec.slots,
        user=spec.user,
        tags={
            **spec.tags,
            "tidemill:team": site.descriptor.team,
            "tidemill:environment": site.descriptor.environment,
            "tidemill:job": spec.job,
        },
    )


def _sha256(ledger: Ledger, name: str) -> str:
    return hashlib.sha256(ledger.store.get(name)).hexdigest()
