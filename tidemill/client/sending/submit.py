"""Submitting: check, write, enqueue. A submit that died at any point can be run again and finishes.

The order makes it so: the manifest, then `job.json` (so a job with a spec has all its items), then `rounds/0.json`,
then the arrays, whose names are looked up before they are enqueued.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import zip_longest

from tidemill import layout
from tidemill.client.estimate.expected_cost import expected
from tidemill.client.health.preflight import check_store
from tidemill.client.items.spool import Spool
from tidemill.client.job import Job
from tidemill.client.journal import Journal, enter
from tidemill.client.plan.chunks import Plan, of_items_to_run, plan_chunks
from tidemill.client.plan.state_settings import check_paired
from tidemill.client.rounds.enqueue import enqueue, write_first_round
from tidemill.client.sending.check import CheckedRequest, check
from tidemill.client.sending.difference import Difference, difference
from tidemill.client.sending.identity import JobIdentity, matching_job, sent_job
from tidemill.client.sending.job_inputs import uploads
from tidemill.client.sending.program_files import program_files
from tidemill.client.sending.standing import Standing, find_standing, goes_on, recipe_of
from tidemill.client.site import Log, Site
from tidemill.client.upload.meter import unwatched
from tidemill.client.upload.versions import Versions, versions_of
from tidemill.code import CodeArchive, upload
from tidemill.ending.address import keep_address
from tidemill.errors import CallerError, StoreMissingError
from tidemill.figures import counted, duration
from tidemill.job import JobSpec, SentBy
from tidemill.ledger import Ledger
from tidemill.manifest import ManifestIndex, ManifestInfo, read_items, read_lines, write_frames
from tidemill.request import JobRequest


def submit(site: Site, request: JobRequest) -> Job:
    """Send a job, or finish sending it. See `Pipeline.submit`."""
    return submitted(site, request)[0]


def submitted(site: Site, request: JobRequest, sent_by: SentBy | None = None) -> tuple[Job, Difference | None]:
    """The job that `submit` sends, and its difference to the newest earlier one of the same name, where it is new. Of
    one send of a template (`sent_by`) there is one job, whatever the items and settings are by now."""
    while True:
        try:
            return _submitted(site, request, sent_by)
        except _OvertakenError:
            request.log("Another submit of the same job was first; this one looks again.")


class _OvertakenError(Exception):
    """Another submit was first, and shares other outcomes or has other items: these may have changed between their
    looks."""


def _submitted(site: Site, request: JobRequest, sent_by: SentBy | None) -> tuple[Job, Difference | None]:
    sent = None if sent_by is None else sent_job(site.store, sent_by)
    if sent is not None:
        if sent.spec is not None:
            return enqueued(site, sent.spec), None
        request = _with_its_items(site, request, sent.job)
    checked = check(site, request)
    check_store(site.store)
    spool, draft = _upload(site, request, checked, sent_by)
    check_paired(site.store, draft.state, spool)
    if checked.order:
        spool.reorder(checked.order)
    named, code = request.name is not None, checked.packed and checked.packed.identity
    program = program_files(site, draft, draft.inputs, checked.packed)
    identity = JobIdentity(items=spool.digest, chunk_size=request.chunk_size, files=program.files)
    versions = versions_of(site.store, spool) if named else Versions()
    journal = Journal(site.store, request.log)
    find = partial(matching_job, site, journal, draft, identity, program, code=code, named=named)
    job, existing = sent or find(force=request.force)
    sharing = request.changed or request.new
    if sharing and existing is not None and not goes_on(site, existing, versions, request):
        job, existing = find(force=True)
    compared = existing is None and named and not request.force and (sharing or sent is None)
    standing = (
        find_standing(site, request, draft, recipe_of(draft, identity), spool, journal=journal, versions=versions)
        if compared
        else None
    )
    earlier = None
    if existing is None and named and sent is None:
        earlier = next(journal.specs(draft.name), None) if standing is None else standing.newest
    shared = standing if sharing else None
    plan = checked.plan if shared is None else _plan(checked, request, shared)
    runs = spool.count if shared is None else shared.left
    spec = draft.model_copy(
        update={
            "job": job,
            "chunk_size": plan.chunk_size,
            "items_total": spool.count,
            "chunks_total": plan.chunks,
            "user": site.account.user(),
            "created_at": _after(earlier, site.account.at()),
            "expected": expected(site, checked.place, runs, request.item_seconds),
            "sent_by": sent_by,
        }
    )
    if shared is not None:
        request.log(shared.words())
        spec, versions = shared.write(site.store, spec), shared.versions
    if request.notify and draft.notify and draft.notify.topic is None and existing is None:
        keep_address(site.store, job, request.notify)
    if existing is None:
        site.store.put(layout.identity(job), identity.model_dump_json().encode())
    if versions:
        versions.note(site.store, job)
    made = _send(site, spec, existing, spool, plan, packed=checked.packed, named=named, log=request.log)
    if earlier is None:
        return made, None
    found = _difference(site, earlier, made.spec, identity, checked.packed, log=request.log)
    if standing is not None and not sharing and (words := standing.offer()):
        request.log(words)
    return made, found


def _with_its_items(site: Site, request: JobRequest, job: str) -> JobRequest:
    """A request with the items that an earlier try of the same send has written down, where it came so far."""
    try:
        index = ManifestIndex.load(site.store, job)
    except StoreMissingError:
        return request
    items = read_items(site.store, job, index)
    return replace(request, items=items, items_format=None, items_column=None, longest_first=None)


def _plan(checked: CheckedRequest, request: JobRequest, standing: Standing) -> Plan:
    """The chunks of a job that shares outcomes."""
    if not len(standing.shared):
        return checked.plan
    left = plan_chunks(
        max(1, standing.left), checked.place.fleet_slots, checked.item_seconds, request.chunk_size, request.max_parallel
    )
    return of_items_to_run(checked.plan, left, standing.runs(), request.max_parallel)


def _after(earlier: JobSpec | None, now: datetime) -> datetime:
    """The time of a job that is sent now. It is the newest of its name, also if this machine's clock has gone back."""
    return now if earlier is None else max(now, earlier.created_at + timedelta(microseconds=1))


def _difference(
    site: Site, other: JobSpec, spec: JobSpec, identity: JobIdentity, packed: CodeArchive | None, *, log: Log
) -> Difference | None:
    found = difference(site, other, spec, identity, packed)
    log(
        found.words(spec.job)
        if found
        else f"{spec.name} is also the name of {other.job}; from now on it means {spec.job}."
    )
    return found


def _upload(site: Site, request: JobRequest, checked: CheckedRequest, sent_by: SentBy | None) -> tuple[Spool, JobSpec]:
    """The items and the draft, with the objects of the files that were uploaded.

    Raises:
        CallerError: A template means files of the machine that sends it: others write its lists, and would get them.
    """
    if checked.gathered.folder is None and not checked.inputs:
        return checked.gathered.spool, checked.draft
    with uploads(site, checked.gathered, checked.inputs, checked.draft.timeout_seconds) as bringing:
        if sent_by and (bringing.amount.files or bringing.amount.there):
            problem = f"Template {sent_by.template} has items or inputs that are files of the machine that sends it."
            raise CallerError(problem, "Copy them into a store, and name their URIs.", what="items")
        if bringing.amount.files:
            if bringing.amount.large:
                request.confirm(bringing.amount)
            request.log(f"Uploading {bringing.amount.words()}.")
        spool, inputs = bringing.send(request.watch or unwatched)
    return spool, checked.draft.model_copy(update={"inputs": inputs})


def _send(
    site: Site,
    spec: JobSpec,
    existing: JobSpec | None,
    spool: Spool,
    plan: Plan,
    *,
    packed: CodeArchive | None,
    named: bool,
    log: Log,
) -> Job:
    """Write the job and enqueue it; of one that exists, only what is missing."""
    ledger = Ledger(site.store, spec.job)
    if existing is None:
        if packed is not None:
            upload(site.store, spec.job, packed)
            log(packed.words(spec.code_origin))
        made = _written(site, spec, spool, plan)
        # Of two submits at once the first manifest counts: the items are the same, the chunks may differ.
        size = spec.chunk_size if made.chunks == spec.chunks_total else made.largest
        spec = spec.model_copy(update={"manifest": made.sha256, "chunks_total": made.chunks, "chunk_size": size})
        # Of two submits at once the first spec counts: the job is the same, only who and when may differ.
        if not site.store.create(layout.spec(spec.job), spec.model_dump_json().encode()).ours:
            shares, spec = spec.shared, ledger.spec()
            if spec.shared != shares:
                raise _OvertakenError
        enter(site.store, spec)
        if spec.shared is None:
            log(f"{counted(spec.items_total, 'item')} in {plan.words()}, queue {spec.queue}.")
        if spec.limit:
            price = f"{spec.limit.usd_per_item_hour:.3g} USD per item-hour"
            log(f"The job stops at about {spec.limit.max_usd:g} USD ({price}).")
        if not named:
            # Its id is new each time, so the same command would be another job.
            log(
                f"If this is interrupted, `tidemill resume {spec.job}` finishes it. With `name`, so does the same call."
            )
    else:
        _check_repeated(ledger, spec, existing)
    if existing:
        _tell_kept(existing, spec, log)
    job = enqueued(site, existing or ledger.spec())
    spec = job.spec
    if spec.limit and (note := ledger.cancellation()):
        log(f"{spec.job} is cancelled before all of it was sent: {note.get('reason', '')}.")
    if existing is not None:
        seen = job.status(consumption=False, running=True) if site.local else job.progress()
        done = f"{existing.items_total - seen.remaining} of {existing.items_total} items are done"
        rest = f" {counted(job.enqueued, 'missing array')} enqueued now." if job.enqueued else ""
        log(f"{spec.job} already exists: {done}.{rest}")
        for words in job.stale():
            log(f"{words} `changed=True` runs what has changed, `force=True` every item, as another job.")
    return job


def _tell_kept(existing: JobSpec, spec: JobSpec, log: Log) -> None:
    """Tell which settings a job that is there keeps, where a submit of the same job asks for others."""
    if existing.notify != spec.notify:
        log(f"{spec.job} was sent before: {existing.notify.to if existing.notify else 'no one'} is told when it ends.")
    kept = {
        "market": existing.market and existing.market.replace("_", "-"),
        "start_within_seconds": existing.start_within_seconds and duration(existing.start_within_seconds),
    }
    words = [
        f"`{key}` is {value or 'not set'}"
        for key, value in kept.items()
        if getattr(existing, key) != getattr(spec, key)
    ]
    if words:
        log(f"{spec.job} was sent before and keeps what it has: {', '.join(words)}.")


def enqueued(site: Site, spec: JobSpec) -> Job:
    """A job that is written down, with what is missing of it enqueued."""
    job = Job(site, spec)
    job.enqueued = enqueue(site, spec, write_first_round(site, Ledger(site.store, spec.job), spec))
    return job


def _written(site: Site, spec: JobSpec, spool: Spool, plan: Plan) -> ManifestInfo:
    """Write the manifest."""
    made = write_frames(site.store, spec.job, spool.frames(plan.sizes()))
    if spec.sent_by and not made.ours and not _same_items(site, spec.job, spool):
        raise _OvertakenError
    return made


def _same_items(site: Site, job: str, spool: Spool) -> bool:
    """True if the manifest that stands has the items of a spool, whatever its chunks are."""
    lines = read_lines(site.store, job, ManifestIndex.load(site.store, job))
    return all(ours == theirs for ours, theirs in zip_longest(spool.lines(), lines))


def _check_repeated(ledger: Ledger, spec: JobSpec, existing: JobSpec) -> None:
    """Refuse a submit of a job that is there with another limit, or that is cancelled."""
    if _max_usd(existing) != _max_usd(spec):
        raise CallerError(
            f"max_usd is {_max_usd(spec)}, and with this name and these items it is the job {spec.job}, sent with "
            f"{_max_usd(existing)}.",
            f"Give the same; `tidemill resume {spec.job} --max-usd USD` changes a limit.",
            what="max_usd",
        )
    if note := ledger.cancellation():
        more = " --max-usd USD" if "max_usd" in note else ""
        raise CallerError(
            f"name is {spec.name!r}, and with these items it is the job {spec.job}, which is cancelled"
            f"{' at its limit' if more else ''}.",
            f"`tidemill resume {spec.job}{more}` runs what is left; or choose another name.",
        )


def _max_usd(spec: JobSpec) -> str:
    return f"{spec.limit.max_usd:g}" if spec.limit else "none"
