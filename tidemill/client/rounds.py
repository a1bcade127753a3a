"""Rounds after the first: what was lost or cancelled runs on (resume), what failed runs again (retry)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidemill.client.chunks import arrays_of
from tidemill.client.deliveries import enqueue, newest_rounds, queue_of, reconcile, write_round
from tidemill.client.limit import check_left
from tidemill.errors import CallerError
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Look, Round

if TYPE_CHECKING:
    from tidemill.client.pipeline import Pipeline

_PARALLEL = 16


@dataclass(frozen=True)
class Sent:
    """What a retry or a resume enqueued.

    Attributes:
        job: The job's id.
        round: The new round's number; None when there was nothing to enqueue.
        chunks: Chunks that were enqueued, those of an earlier round whose submit had died included.
        items: Items that will run.
        arrays: Arrays that were handed to the cloud.
        note: Why it is less than somebody may have expected, or None.
        run_command: What has to be typed for the job to go on, where no cloud does it; None where one does.
    """

    job: str
    round: int | None = None
    chunks: int = 0
    items: int = 0
    arrays: int = 0
    note: str | None = None
    run_command: str | None = None


@dataclass(frozen=True)
class _Plan:
    """A round to be: its chunks, and which of their items run where it is not all of them."""

    chunks: Sequence[int]
    items: Mapping[int, list[int]]
    failed_before: Mapping[int, int]

    def same_as(self, standing: Round) -> bool:
        """Whether somebody else wrote this very round."""
        chunks = [chunk for array in standing.arrays for chunk in array.all()]
        return chunks == list(self.chunks) and (standing.items or {}) == dict(self.items)


def resume(pipeline: Pipeline, spec: JobSpec, max_usd: float | None = None) -> Sent:
    """Enqueue what nobody will deliver any more: what the cloud has lost, what a dead submit left out, and, of a
    cancelled job, all that is not done. What is done is not run again.

    Args:
        pipeline: The pipeline.
        spec: The job's spec.
        max_usd: What the job may cost from now on; None for what it might until now.

    Raises:
        CallerError: The stack no longer has the job's queue, or the job has nothing left of its limit.
        CloudError: The store or the queue refused. The same call may be made again.
    """
    ledger, backend = Ledger(pipeline.store, spec.job), pipeline.backend
    queue = queue_of(pipeline, spec)
    if not ledger.rounds():
        limit = check_left(ledger, spec, max_usd, f"resume {spec.job}")
        arrays = arrays_of(spec.job, 0, range(spec.chunks_total), backend.array_chunks)
        first = write_round(ledger, 0, arrays, spec.image, code=spec.code, max_usd=limit)
        sent = enqueue(pipeline, spec, first)
        return Sent(spec.job, 0, spec.chunks_total, spec.items_total, sent)
    known = backend.describe(queue, f"{spec.job}-r")
    look = ledger.look()
    if look.counts.cancelled:
        missing = sorted(look.waiting)
    elif getattr(backend, "local", False):
        # What is enqueued stays so until a run works on it.
        missing = []
    else:
        missing = reconcile(spec, backend, known, look, patient=False).lost
    if not missing:
        note = None if look.counts.finished else "everything that is not done is still enqueued"
        return Sent(spec.job, note=note)
    return send_again(pipeline, spec, look, missing, check_left(ledger, spec, max_usd, f"resume {spec.job}"))


def send_again(
    pipeline: Pipeline, spec: JobSpec, look: Look, chunks: Sequence[int], max_usd: float | None = None
) -> Sent:
    """Enqueue chunks that were not done as a new round: the same items of each that were to run."""
    if not look.rounds:
        return resume(pipeline, spec)
    items: dict[int, list[int]] = {}
    before: dict[int, int] = {}
    for round_ in look.rounds:
        for array in round_.arrays:
            for chunk in array.all():
                items.pop(chunk, None)
                before.pop(chunk, None)
                if round_.items and chunk in round_.items:
                    items[chunk] = round_.items[chunk]
                    before[chunk] = round_.failed_before.get(chunk, 0)
    wanted = set(chunks)
    plan = _Plan(
        sorted(wanted),
        {chunk: some for chunk, some in items.items() if chunk in wanted},
        {chunk: count for chunk, count in before.items() if chunk in wanted},
    )
    newest = look.rounds[-1]
    return _send(pipeline, spec, plan, newest.code, max_usd or newest.max_usd)


def retry(
    pipeline: Pipeline,
    spec: JobSpec,
    items: Collection[int] | None,
    code: str | None = None,
    max_usd: float | None = None,
) -> Sent:
    """Run items again that have an outcome, in a new round, whose outcome then stands.

    Args:
        pipeline: The pipeline.
        spec: The job's spec.
        items: Indexes; None for every item that failed.
        code: SHA-256 of other code that they run with; None for that of the newest round.
        max_usd: What the job may cost from now on; None for what it might until now.

    Raises:
        CallerError: An item that the job does not have, or that has no outcome yet; nothing is left of its limit.
        CloudError: The store or the queue refused.
    """
    ledger = Ledger(pipeline.store, spec.job)
    queue_of(pipeline, spec)
    look = ledger.look()
    wanted = None if items is None else _by_chunk(ledger, spec, items)
    chunks = sorted(wanted if wanted is not None else look.failed)
    underway = [chunk for chunk in chunks if chunk in look.waiting]
    if wanted and underway and not look.counts.cancelled:
        first = wanted[underway[0]][0]
        raise CallerError(f"Item {first} has no outcome yet: it still runs. `tidemill wait {spec.job}` first.")
    chunks = [chunk for chunk in chunks if chunk not in look.waiting]
    plan = _plan(ledger, look, chunks, wanted)
    state = "were cancelled while they ran again: resume" if look.counts.cancelled else "run again already"
    note = f"failed items of {len(underway)} chunks {state}" if underway else None
    if not plan.chunks:
        return Sent(spec.job, note=note)
    limit = check_left(ledger, spec, max_usd, f"retry {spec.job} --failed")
    sent = _send(pipeline, spec, plan, code or look.rounds[-1].code, limit)
    return Sent(sent.job, sent.round, sent.chunks, sent.items, sent.arrays, note)


def retry_dead(pipeline: Pipeline, spec: JobSpec) -> Sent:
    """Enqueue dead letters again as a new round, and then throw them away.

    A letter whose chunk is done, or was enqueued again since, is only thrown away.
    """
    ledger = Ledger(pipeline.store, spec.job)
    look = ledger.look()
    letters = pipeline.backend.dead_letters(queue_of(pipeline, spec), spec.job)
    if look.counts.cancelled or not letters:
        return Sent(spec.job, note="it is cancelled" if look.counts.cancelled else "there are no dead letters of it")
    newest = newest_rounds(look)
    wanted = {one.chunk for one in letters if one.chunk in look.waiting and newest[one.chunk] == one.round}
    stale = _forget_dead(pipeline, spec, {letter.chunk for letter in letters} - wanted)
    note = f"{stale} dead letters of chunks that need them no more were thrown away" if stale else None
    if not wanted:
        return Sent(spec.job, note=note)
    limit = check_left(ledger, spec, None, f"retry {spec.job} --failed")
    return replace(send_again(pipeline, spec, look, sorted(wanted), limit), note=note)


def _by_chunk(ledger: Ledger, spec: JobSpec, items: Collection[int]) -> dict[int, list[int]]:
    index, found = ledger.index(), dict[int, list[int]]()
    for item in sorted(set(items)):
        if not 0 <= item < spec.items_total:
            raise CallerError.about("items", item, f"from 0 to {spec.items_total - 1}", "Give indexes of items.")
        found.setdefault(index.chunk_of(item), []).append(item)
    if not found:
        raise CallerError("items is empty. Give an index, or leave it out for every item that failed.")
    return found


def _plan(ledger: Ledger, look: Look, chunks: Sequence[int], wanted: Mapping[int, list[int]] | None) -> _Plan:
    """Read the records of the chunks and choose their items."""
    rounds = {chunk: [number for number, done in look.done.items() if chunk in done] for chunk in chunks}
    some: dict[int, list[int]] = {}
    before: dict[int, int] = {}
    kept: list[int] = []
    with ThreadPoolExecutor(_PARALLEL) as pool:
        for chunk, outcomes in zip(chunks, pool.map(lambda c: ledger.merged(c, rounds[c]), chunks), strict=True):
            failed = {outcome.index for outcome in outcomes if outcome.status == "failed"}
            chosen = sorted(failed) if wanted is None else wanted[chunk]
            if not chosen:
                continue
            kept.append(chunk)
            if len(chosen) < ledger.index().size(chunk):
                some[chunk] = chosen
                before[chunk] = len(failed.intersection(chosen))
    return _Plan(kept, some, before)


def _send(pipeline: Pipeline, spec: JobSpec, plan: _Plan, code: str | None, max_usd: float | None) -> Sent:
    """Write the round and enqueue it. Of two callers at once with the same plan, the second completes the first's."""
    ledger = Ledger(pipeline.store, spec.job)
    number = len(ledger.rounds())
    while True:
        arrays = arrays_of(spec.job, number, plan.chunks, pipeline.backend.array_chunks)
        some, before = dict(plan.items), dict(plan.failed_before)
        fields = {"code": code, "items": some, "failed_before": before, "max_usd": max_usd}
        round_ = write_round(ledger, number, arrays, spec.image, **fields)
        if plan.same_as(round_) and round_.code == code:
            break
        number += 1
    index = ledger.index()
    items = sum(len(plan.items[c]) if c in plan.items else index.size(c) for c in plan.chunks)
    sent = Sent(spec.job, round_.round, len(plan.chunks), items, enqueue(pipeline, spec, round_))
    _forget_dead(pipeline, spec, set(plan.chunks))
    return sent


def _forget_dead(pipeline: Pipeline, spec: JobSpec, chunks: Collection[int]) -> int:
    """Throw away dead letters whose chunks were enqueued anew or are done."""
    queue, backend = queue_of(pipeline, spec), pipeline.backend
    stale = [letter for letter in backend.dead_letters(queue, spec.job) if letter.chunk in chunks]
    return backend.forget_dead(queue, spec.job, stale)
