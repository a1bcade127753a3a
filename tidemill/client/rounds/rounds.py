"""Rounds after the first: lost or cancelled items continue (resume), failed ones run again (retry)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any

from tidemill.client.arguments import indexes
from tidemill.client.plan.chunks import arrays_of
from tidemill.client.plan.limit import check_left, check_new_limit
from tidemill.client.plan.state_settings import expires_soon
from tidemill.client.program import round_code
from tidemill.client.program.round_code import OtherCode
from tidemill.client.rounds.deliveries import known_arrays, queue_of, reconcile
from tidemill.client.rounds.enqueue import LOOK_SECONDS, definition_of, enqueue, write_first_round
from tidemill.client.rounds.memory import asked_memory, memory_of
from tidemill.client.rounds.predecessors import check_gate
from tidemill.client.secrets import check_set
from tidemill.client.site import Log, Site
from tidemill.clouds.account import ignore
from tidemill.completion import owners
from tidemill.errors import CallerError
from tidemill.failures import items_of_group
from tidemill.figures import counted
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Listing, Round

_PARALLEL = 16
ROUNDS_APART = 3
"""Workers that read job specs of this version read the lists of a large round from an object of their own."""
_ENQUEUED = "everything that is not done is still enqueued"


@dataclass(frozen=True)
class RoundResult:
    """Result of a retry or a resume.

    Attributes:
        job: The job's id.
        round: The new round's number; None when there was nothing to enqueue.
        chunks: Chunks that were enqueued, those of an earlier round whose submit had died included.
        items: Items that will run.
        arrays: Arrays that were handed to the cloud.
        note: Why it is less than the caller may expect, or may end early, or None.
        run_command: The command that runs the job, where no cloud does it; None where one does.
    """

    job: str
    round: int | None = None
    chunks: int = 0
    items: int = 0
    arrays: int = 0
    note: str | None = None
    run_command: str | None = None


@dataclass(frozen=True)
class _NewRound:
    """A round to be, made on one look at the job.

    Attributes:
        number: The round's number: how many rounds there were. The round is created only if that is still so, because
            another round changes what is lost, what has failed and what runs already.
        chunks: Its chunks in order.
        items: By chunk: which of its items run, where that is not all of them.
        failed_before: By such a chunk: how many of these items had failed.
        cancelled: Whether the job was cancelled. A cancel that came later ends this round too.
    """

    number: int
    chunks: Sequence[int]
    items: Mapping[int, list[int]]
    failed_before: Mapping[int, int]
    cancelled: bool


def resume(site: Site, spec: JobSpec, max_usd: float | None = None) -> RoundResult:
    """Enqueue what will not be delivered: what the cloud has lost, a dead submit left out or, in a cancelled job, is
    not done. What is done does not run again. See `Job.resume`.

    Raises:
        CallerError: The stack no longer has the job's queue, or the job has nothing left of its limit.
        CloudError: The store or the queue refused. The same call may be made again.
    """
    check_new_limit(max_usd)
    check_set(site, spec.secrets)
    ledger = Ledger(site.store, spec.job, spec.manifest)
    queue_of(site, spec)
    gate = check_gate(site, ledger, spec)
    if not (rounds := ledger.rounds()):
        limit = check_left(ledger, spec, max_usd, f"resume {spec.job}")
        return _send_first(site, ledger, spec, limit)
    if spec.after and not ledger.is_cancelled():
        # A held round may be due by now, or the queue can keep it waiting now.
        enqueue(site, spec, rounds[-1])
    while True:
        listing, missing = _look_for_missing(site, ledger, spec)
        if not missing:
            note = None if listing.counts.finished else gate.words() if gate else _ENQUEUED
            return RoundResult(spec.job, note=note)
        limit = check_left(ledger, spec, max_usd, f"resume {spec.job}")
        if sent := send_again(site, spec, listing, missing, limit):
            return replace(sent, note=expires_soon(spec, site.descriptor.expire_jobs_after_days))


def _send_first(site: Site, ledger: Ledger, spec: JobSpec, max_usd: float | None) -> RoundResult:
    """Finish a submit that did not get as far as its round."""
    first = write_first_round(site, ledger, spec, max_usd)
    index = ledger.index()
    items = sum(first.size(chunk, index) for chunk in first.enqueued())
    return RoundResult(spec.job, 0, first.chunks_total, items, enqueue(site, spec, first))


def _look_for_missing(site: Site, ledger: Ledger, spec: JobSpec) -> tuple[Listing, list[int]]:
    """Chunks that will not be delivered, and the listing that shows it.

    The queue is asked first, so the listing may hold a round that another submit enqueues right now, or that the
    queue's listing does not show yet: this waits for such a round, until it is older than that may take.
    """
    while True:
        states = known_arrays(site, spec)
        listing = ledger.listing()
        if listing.counts.cancelled:
            return listing, sorted(listing.waiting)
        if site.local:
            # Chunks stay enqueued until a run works on them, unless their round is cancelled and the newest is not.
            return listing, _cancelled_before(ledger, listing)
        seen = reconcile(site, ledger, spec, states, listing, patient=False)
        if not seen.on_its_way:
            return listing, seen.lost
        time.sleep(LOOK_SECONDS)


def _cancelled_before(ledger: Ledger, listing: Listing) -> list[int]:
    """Chunks that wait for a round that is cancelled, in a job whose newest round is not."""
    newest = owners(listing.rounds)
    cancelled = {number for number in {newest[chunk] for chunk in listing.waiting} if ledger.is_cancelled(number)}
    return sorted(chunk for chunk in listing.waiting if newest[chunk] in cancelled)


def enqueue_cancelled(site: Site, spec: JobSpec) -> None:
    """Enqueue again what a cancel left of earlier rounds of a job that a retry has continued, as `wait` does in a
    cloud."""
    ledger = Ledger(site.store, spec.job, spec.manifest)
    listing = ledger.listing()
    if not listing.counts.cancelled and (chunks := _cancelled_before(ledger, listing)):
        send_again(site, spec, listing, chunks)


def send_again(
    site: Site, spec: JobSpec, listing: Listing, chunks: Sequence[int], max_usd: float | None = None
) -> RoundResult | None:
    """Enqueue chunks that were not done as a new round: the same items of each that were to run. None, and nothing is
    enqueued, when there has been another round since the look."""
    if not listing.rounds:
        return resume(site, spec)
    items: dict[int, list[int]] = {}
    before: dict[int, int] = {}
    for round_ in listing.rounds:
        for array in round_.arrays:
            for chunk in array.all():
                items.pop(chunk, None)
                before.pop(chunk, None)
                if (some := round_.runs(chunk)) is not None:
                    items[chunk], before[chunk] = some, round_.had_failed(chunk)
    wanted = set(chunks)
    plan = _NewRound(
        len(listing.rounds),
        sorted(wanted),
        {chunk: some for chunk, some in items.items() if chunk in wanted},
        {chunk: count for chunk, count in before.items() if chunk in wanted},
        listing.counts.cancelled,
    )
    newest = listing.rounds[-1]
    limit, memory = max_usd or newest.max_usd, memory_of(listing.rounds, chunks)
    return _send(site, spec, plan, _code_of(newest), definition=newest.definition, max_usd=limit, memory_mib=memory)


def send_larger(
    site: Site, spec: JobSpec, listing: Listing, wanted: Mapping[int, list[int]], memory_mib: int
) -> RoundResult | None:
    """Enqueue items that have an outcome again, by chunk, with so much memory. None when there has been another round
    since the look."""
    plan = _plan(Ledger(site.store, spec.job, spec.manifest), listing, sorted(wanted), wanted)
    newest = listing.rounds[-1]
    same = {"definition": newest.definition, "max_usd": newest.max_usd}
    return _send(site, spec, plan, _code_of(newest), memory_mib=memory_mib, **same)


def _code_of(round_: Round) -> OtherCode:
    return OtherCode(round_.code, round_.code_origin)


@dataclass(frozen=True)
class RetryRequest:
    """Items of a job that a caller wants to run again.

    Attributes:
        items: Indexes; None for every item that failed.
        code: What they run with from now on: a folder or a repository, as with `submit`, or the corrected function;
            None for that of the newest round.
        max_usd: What the job may cost from now on, all rounds together; None keeps the current limit.
        group: In place of `items`: the id of a group that `tidemill failures` shows.
        memory: Memory of each item from now on, such as "8G" or a number of MiB; None for what it had.
        libs: Folders that travel with `code`, each under its own name.
        log: Called with a sentence about the code.
    """

    items: Collection[int] | None = None
    code: str | Path | Callable[..., Any] | None = None
    max_usd: float | None = None
    _: KW_ONLY
    group: str | None = None
    memory: str | float | None = None
    libs: Sequence[str | Path] = ()
    log: Log = ignore


def retry(site: Site, spec: JobSpec, asked: RetryRequest) -> RoundResult:
    """Run items that have an outcome again, in a new round. See `Job.retry`."""
    ledger, items, max_usd = Ledger(site.store, spec.job, spec.manifest), asked.items, asked.max_usd
    check_new_limit(max_usd)
    check_set(site, spec.secrets)
    if asked.group is not None:
        items = items_of_group(spec.job, ledger.outcomes(), asked.group)
    from tidemill.client.program.git_code import check_libs

    check_libs(asked.libs, asked.code)
    code = None if asked.code is None else round_code.send(site, spec, asked.code, asked.libs, asked.log)
    memory_mib = asked_memory(site, spec, queue_of(site, spec), asked.memory)
    wanted = None if items is None else _by_chunk(ledger, spec, items)
    while True:
        listing = ledger.listing()
        plan, note = _plan_retry(ledger, spec, listing, wanted)
        if not plan.chunks:
            return RoundResult(spec.job, note=note)
        limit = check_left(ledger, spec, max_usd, f"retry {spec.job} --failed")
        # A new image may fix the failures: a retry runs with today's.
        definition, runs = definition_of(site, spec), code or _code_of(listing.rounds[-1])
        memory = memory_mib or memory_of(listing.rounds, plan.chunks)
        if sent := _send(site, spec, plan, runs, definition=definition, max_usd=limit, memory_mib=memory):
            early = expires_soon(spec, site.descriptor.expire_jobs_after_days)
            return replace(sent, note="; ".join(filter(None, (note, early))) or None)


def _plan_retry(
    ledger: Ledger, spec: JobSpec, listing: Listing, wanted: Mapping[int, list[int]] | None
) -> tuple[_NewRound, str | None]:
    chunks = sorted(wanted if wanted is not None else listing.failed)
    underway = [chunk for chunk in chunks if chunk in listing.waiting]
    if wanted and underway and not listing.counts.cancelled:
        first = wanted[underway[0]][0]
        raise CallerError(
            f"Item {first} belongs to a chunk that has not ended.", f"`tidemill wait {spec.job}` first.", what="items"
        )
    plan = _plan(ledger, listing, [chunk for chunk in chunks if chunk not in listing.waiting], wanted)
    state = "were cancelled while they ran again: resume" if listing.counts.cancelled else "run again already"
    return plan, f"failed items of {counted(len(underway), 'chunk')} {state}" if underway else None


def retry_dead(site: Site, spec: JobSpec) -> RoundResult:
    """Enqueue dead letters again as a new round, and then throw them away.

    A letter whose chunk is done, or was enqueued again since, is only thrown away.
    """
    ledger = Ledger(site.store, spec.job, spec.manifest)
    listing = ledger.listing()
    letters = site.backend(spec.queue).dead_letters(queue_of(site, spec), spec.job)
    if listing.counts.cancelled or not letters:
        return RoundResult(spec.job, note="it is cancelled" if listing.counts.cancelled else "it has no dead letters")
    newest = owners(listing.rounds)
    wanted = {one.chunk for one in letters if one.chunk in listing.waiting and newest[one.chunk] == one.round}
    stale = _forget_dead(site, spec, {letter.chunk for letter in letters} - wanted)
    note = f"{stale} dead letters that are no longer needed were thrown away" if stale else None
    if not wanted:
        return RoundResult(spec.job, note=note)
    limit = check_left(ledger, spec, None, f"retry {spec.job} --failed")
    sent = send_again(site, spec, listing, sorted(wanted), limit)
    return replace(sent, note=note) if sent else RoundResult(spec.job, note="another retry enqueues them right now")


def _by_chunk(ledger: Ledger, spec: JobSpec, items: Collection[int]) -> dict[int, list[int]]:
    index, by_chunk = ledger.index(), dict[int, list[int]]()
    for item in indexes(items, spec.items_total):
        by_chunk.setdefault(index.chunk_of(item), []).append(item)
    if not by_chunk:
        raise CallerError("items is empty.", "Give an index, or leave it out for every item that failed.", what="items")
    return by_chunk


def _plan(ledger: Ledger, listing: Listing, chunks: Sequence[int], wanted: Mapping[int, list[int]] | None) -> _NewRound:
    rounds = {chunk: [number for number, done in listing.done.items() if chunk in done] for chunk in chunks}
    some: dict[int, list[int]] = {}
    before: dict[int, int] = {}
    kept: list[int] = []
    with ThreadPoolExecutor(_PARALLEL) as pool:
        for chunk, outcomes in zip(chunks, pool.map(lambda c: ledger.computed(c, rounds[c]), chunks), strict=True):
            failed = {outcome.index for outcome in outcomes if outcome.status == "failed"}
            chosen = sorted(failed) if wanted is None else wanted[chunk]
            if not chosen:
                # A marker says that something has failed, and the records do not: the records' own markers settle it.
                for stored in (ledger.chunk(number, chunk) for number in rounds[chunk]):
                    if record := stored.committed():
                        stored.derive_marker(record)
                continue
            kept.append(chunk)
            if len(chosen) < ledger.index().size(chunk):
                some[chunk] = chosen
                before[chunk] = len(failed.intersection(chosen))
    return _NewRound(len(listing.rounds), kept, some, before, listing.counts.cancelled)


def _send(site: Site, spec: JobSpec, plan: _NewRound, code: OtherCode, **fields: Any) -> RoundResult | None:
    """Write the round, with its code and further `fields` of `Round`, and enqueue it; None when another round has its
    number, which makes the plan void."""
    ledger = Ledger(site.store, spec.job, spec.manifest)
    arrays = arrays_of(spec.job, plan.number, plan.chunks, site.backend(spec.queue).service.array_chunks)
    round_ = Round(
        round=plan.number,
        arrays=arrays,
        image=spec.image,
        items=dict(plan.items) or None,
        failed_before=dict(plan.failed_before),
        code=code.sha256,
        code_origin=code.origin,
        created_at=site.account.at(),
        **fields,
    )
    if ledger.add_round(round_, site.descriptor.max_spec >= ROUNDS_APART) is not round_:
        return None
    if not plan.cancelled and ledger.is_cancelled(plan.number - 1):
        ledger.cancel(spec.user, "it was cancelled while this round was planned", plan.number + 1)
        return RoundResult(spec.job, note="it was cancelled at the same time")
    index = ledger.index()
    items = sum(len(plan.items[c]) if c in plan.items else index.size(c) for c in plan.chunks)
    sent = RoundResult(spec.job, round_.round, len(plan.chunks), items, enqueue(site, spec, round_))
    _forget_dead(site, spec, set(plan.chunks))
    return sent


def _forget_dead(site: Site, spec: JobSpec, chunks: Collection[int]) -> int:
    """Throw away dead letters whose chunks were enqueued anew or are done."""
    queue, backend = queue_of(site, spec), site.backend(spec.queue)
    stale = [letter for letter in backend.dead_letters(queue, spec.job) if letter.chunk in chunks]
    return backend.forget_dead(queue, spec.job, stale)
