"""Submitting: check, write, enqueue. A submit that died at any point can be run again and finishes.

The order makes it so: the manifest, then `job.json` (so a job with a spec has all its items), then `rounds/0.json`,
then the arrays, whose names are looked up before they are enqueued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemill import layout
from tidemill.client.chunks import ITEM_SECONDS_HERE, Plan, arrays_of, check_sizes, of_equal_weight, plan_chunks
from tidemill.client.expecting import expected
from tidemill.client.fleet import fleet_errors, image_problems, machine_words
from tidemill.client.frames import DataFrameLike
from tidemill.client.function import takes_input
from tidemill.client.gather import Gathered, ItemsAsked, gather, uploads
from tidemill.client.handover import enqueue, write_first_round
from tidemill.client.identity import find_job
from tidemill.client.job import Job
from tidemill.client.job_items import References
from tidemill.client.journal import enter, newest_specs
from tidemill.client.ordering import order_of
from tidemill.client.place import Placement
from tidemill.client.preflight import check_output, check_packages, check_store
from tidemill.client.program import Program, check_program, is_here, name_of
from tidemill.client.site import Log, Site
from tidemill.client.spool import Spool, encodable
from tidemill.client.state import (
    CHUNK_SECONDS,
    check_paired,
    check_state,
    check_timeout,
    expires_early,
    long_on_spot,
)
from tidemill.client.upload.inputs import check_names
from tidemill.client.upload.meter import Watch, unwatched
from tidemill.client.upload.session import Amount
from tidemill.code import Packed, in_code, pack, upload
from tidemill.ending.address import keep_address
from tidemill.errors import CallerError, CloudError
from tidemill.figures import counted
from tidemill.job import SINCE, Item, JobSpec, build_spec, spec_version
from tidemill.ledger import Ledger
from tidemill.manifest import write_frames
from tidemill.metrics import compile_metrics

ARGUMENT_BYTES = 128 * 1024
"""Linux refuses a longer argument: MAX_ARG_STRLEN, https://man7.org/linux/man-pages/man2/execve.2.html."""
_OPTIONS = {
    "limit": "--max-usd",
    "placeholders": "--sweep",
    "inputs": "--input",
    "max_parallel": "--max-parallel",
    "layout": "`train`",
    "after": "--after",
    "metrics": "--metric",
    "keep_values": "--function",
    "state": "--state",
    "notify": "--notify",
}
"""By field that older workers do not know: the option that asks for it."""


def _always(amount: Amount) -> None:
    """Lets every upload begin."""


@dataclass(frozen=True)
class Submission:
    """What a caller asked for. `fields` are fields of `JobSpec` as they were given; `confirm` raises to keep a large
    upload from beginning, and `watch` shows it."""

    place: Placement
    name: str | None
    items: str | Path | Iterable[str | Path | Item] | DataFrameLike
    items_format: str | None
    items_column: str | None
    chunk_size: int | None
    item_seconds: float | None
    code: str | Path | None
    libs: Sequence[str | Path]
    fields: dict[str, Any]
    longest_first: str | None = None
    """What tells how long an item takes: see `tidemill.client.ordering`."""
    webhook: str | None = None
    """The address that is told of the job's end: a secret."""
    force: bool = False
    """Whether to make another job, where one of this name and these settings exists."""
    confirm: Callable[[Amount], None] = _always
    watch: Watch = unwatched


@dataclass(frozen=True)
class CheckedSubmission:
    """A submission that nothing speaks against, as far as reading tells.

    Attributes:
        draft: The spec without what depends on the items.
        packed: The folder of code, or None.
        gathered: The items.
        inputs: Named inputs as they were given, with full ids of jobs.
        plan: The items' chunks.
        order: The indexes of the items in the order to send them in; empty for the order of the list.
    """

    draft: JobSpec
    packed: Packed | None
    gathered: Gathered
    inputs: dict[str, str]
    plan: Plan
    order: Sequence[int] = ()


def check(site: Site, asked: Submission, log: Log) -> CheckedSubmission:
    """Check everything that would fail later. Nothing is written.

    Raises:
        CallerError: Which argument, its value, what is allowed, what to do.
        CloudError: The queue takes no jobs, or the store did not answer.
    """
    check_sizes(asked.item_seconds, asked.chunk_size)
    packed = None if asked.code is None else pack(asked.code, asked.libs, packages=not site.has_packages)
    draft = _draft(asked, packed, local=site.local)
    _check_version(site, draft)
    check_state(draft)
    early = expires_early(draft, site.descriptor.expire_jobs_after_days)
    for words in (early, None if site.local else long_on_spot(draft, asked.place.queue, asked.item_seconds)):
        if words:
            log(words)
    check_packages(site, draft, packed)
    if draft.max_parallel and draft.slots > 1:
        raise CallerError.about("slots", draft.slots, "1 with max_parallel", "Leave one of the two out.")
    check_names(draft.inputs, draft.placeholders)
    code = None if asked.code is None else Path(asked.code).resolve()
    remarks = list(check_program(Program(draft, code, site.local)))
    references = References(site)
    inputs = references.of_inputs(draft.inputs)
    if draft.max_parallel and asked.longest_first:
        raise CallerError("longest_first and max_parallel are both given.", "Leave one of the two out.")
    items = ItemsAsked(asked.items, asked.items_format, asked.items_column, asked.longest_first)
    takes = None if draft.function is None else takes_input(draft.function, code)
    gathered = gather(site, items, draft, references, log, takes_input=takes)
    for remark in remarks:
        log(remark)
    draft = references.waited_for(draft, log)
    _check_version(site, draft)
    seconds = asked.item_seconds or (CHUNK_SECONDS if draft.state else ITEM_SECONDS_HERE if site.local else None)
    count = gathered.spool.count
    plan = plan_chunks(count, asked.place.fleet_slots, seconds, asked.chunk_size, draft.max_parallel)
    order = order_of(gathered.spool.weights)
    if order and asked.chunk_size is None:
        plan = of_equal_weight(plan, [gathered.spool.weights[at] for at in order])
    if not site.local:
        _check_machines(site, asked.place, log)
    check_output(site, draft, log)
    return CheckedSubmission(draft, packed, gathered, inputs, plan, order)


def submit(site: Site, asked: Submission, log: Log) -> Job:
    """Send a job, or finish sending it. See `Pipeline.submit`."""
    checked = check(site, asked, log)
    check_store(site.store)
    spool, draft = _upload(site, asked, checked, log)
    check_paired(site.store, draft.state, spool)
    if checked.order:
        spool.reorder(checked.order)
    job, known = find_job(site, draft, spool.digest, asked.chunk_size, named=asked.name is not None, force=asked.force)
    spec = draft.model_copy(
        update={
            "job": job,
            "chunk_size": checked.plan.chunk_size,
            "items_total": spool.count,
            "chunks_total": checked.plan.chunks,
            "user": site.backend.user(),
            "created_at": site.backend.at(),
            "expected": expected(site, asked.place, spool.count, asked.item_seconds),
        }
    )
    if asked.webhook and known is None:
        keep_address(site.store, job, asked.webhook)
    return _send(site, spec, known, spool, checked.plan, packed=checked.packed, named=asked.name is not None, log=log)


def _upload(site: Site, asked: Submission, checked: CheckedSubmission, log: Log) -> tuple[Spool, JobSpec]:
    """The items and the draft, with the objects of the files that were uploaded."""
    if checked.gathered.folder is None and not checked.inputs:
        return checked.gathered.spool, checked.draft
    with uploads(site, checked.gathered, checked.inputs, checked.draft.timeout_seconds) as bringing:
        if bringing.amount.files:
            if bringing.amount.large:
                asked.confirm(bringing.amount)
            log(f"Uploading {bringing.amount.words()}.")
        spool, inputs = bringing.send(asked.watch)
    return spool, checked.draft.model_copy(update={"inputs": inputs})


def _check_version(site: Site, draft: JobSpec) -> None:
    newest = site.descriptor.max_spec
    if newest < draft.spec_version:
        newer = [field for field, version in SINCE.items() if version > newest and getattr(draft, field)]
        without = f"leave {' and '.join(_OPTIONS[field] for field in newer)} out" if newer else "use an older tidemill"
        raise CallerError(
            f"this pipeline's workers read job specs up to version {newest}, this one is of {draft.spec_version}.",
            f"Ask the stack's owner to run `pulumi up` with a newer worker, or {without}.",
        )


def _send(
    site: Site,
    spec: JobSpec,
    known: JobSpec | None,
    spool: Spool,
    plan: Plan,
    *,
    packed: Packed | None,
    named: bool,
    log: Log,
) -> Job:
    """Write the job and enqueue it; of a job that is `known`, only what is missing."""
    ledger = Ledger(site.store, spec.job)
    if known is None:
        if packed is not None:
            upload(site.store, spec.job, packed)
            log(packed.words(spec.code_origin))
        made = write_frames(site.store, spec.job, spool.frames(plan.sizes()))
        # Of two submits at once the first manifest counts: the items are the same, the chunks may differ.
        size = spec.chunk_size if made.chunks == spec.chunks_total else made.largest
        spec = spec.model_copy(update={"manifest": made.sha256, "chunks_total": made.chunks, "chunk_size": size})
        # Of two submits at once the first spec counts: the job is the same, only who and when may differ.
        site.store.create(layout.spec(spec.job), spec.model_dump_json().encode())
        enter(site.store, spec)
        log(f"{counted(spec.items_total, 'item')} in {plan.words()}, queue {spec.queue}.")
        if spec.limit:
            price = f"{spec.limit.usd_per_item_hour:.3g} USD per item-hour"
            log(f"The job stops at about {spec.limit.max_usd:g} USD ({price}).")
        if not named:
            # Its id is new each time, so the same command would be another job.
            log(f"If this is interrupted, `tidemill resume {spec.job}` finishes it. With --name, so does this command.")
        elif other := next((one for one in newest_specs(site.store, spec.name) if one.job != spec.job), None):
            log(f"{spec.name} is also the name of {other.job}; from now on it means {spec.job}.")
    elif _max_usd(known) != _max_usd(spec):
        raise CallerError(
            f"max_usd is {_max_usd(spec)}, and with this name and these items it is the job {spec.job}, sent with "
            f"{_max_usd(known)}.",
            f"Give the same; `tidemill resume {spec.job} --max-usd USD` changes a limit.",
            what="max_usd",
        )
    elif note := ledger.cancellation():
        more = " --max-usd USD" if "max_usd" in note else ""
        raise CallerError(
            f"name is {spec.name!r}, and with these items it is the job {spec.job}, which is cancelled"
            f"{' at its limit' if more else ''}.",
            f"`tidemill resume {spec.job}{more}` runs what is left; or choose another name.",
        )
    if known and known.notify != spec.notify:
        log(f"{spec.job} was sent before: {known.notify.to if known.notify else 'no one'} is told when it ends.")
    spec = known or ledger.spec()
    arrays = arrays_of(spec.job, 0, range(spec.chunks_total), site.backend.array_chunks)
    round_ = write_first_round(site, ledger, spec, arrays)
    job = Job(site, spec.job, spec)
    job.enqueued = enqueue(site, spec, round_)
    if spec.limit and (note := ledger.cancellation()):
        log(f"{spec.job} is cancelled before all of it was sent: {note.get('reason', '')}.")
    if known is not None:
        seen = job.status(consumption=False, running=True) if site.local else job.progress()
        done = f"{known.items_total - seen.remaining} of {known.items_total} items are done"
        rest = f" {counted(job.enqueued, 'missing array')} enqueued now." if job.enqueued else ""
        log(f"{spec.job} already exists: {done}.{rest}")
        for words in job.stale():
            log(f"{words} With force (--force), every item runs anew, as another job.")
    return job


def _max_usd(spec: JobSpec) -> str:
    return f"{spec.limit.max_usd:g}" if spec.limit else "none"


def _check_machines(site: Site, place: Placement, log: Log) -> None:
    """Check, before anything is written, what machines have reported, the image, and that the queue takes jobs."""
    for words in machine_words(site, place.queue_name):
        log(words)
    for error in fleet_errors(site.store)[0]:
        log(f"a machine could not run its worker within the last day: {error.text()}")
    for found in image_problems(site, place.queue_name, place.image):
        raise CloudError(f"{found.check}: {found.detail}.", f"`{found.command}` fixes it." if found.command else "")
    name = place.queue_name
    state = site.backend.queue_states({name: place.queue})[name]
    if not state.accepting:
        raise CloudError(f"queue {name!r} takes no jobs: it is {state.detail}.", "Ask the stack's owner.")
    if not state.running:
        log(f"queue {name!r} is {state.detail}; the job waits until its owner fixes that.")
    else:
        from tidemill.client.explaining import known_trouble

        for words in known_trouble(site, name):
            log(words)


def _draft(asked: Submission, packed: Packed | None, *, local: bool) -> JobSpec:
    """The spec, checked, with everything except what depends on the items. Files of this machine that a local job
    names get their full paths: its items run in folders of their own."""
    command = asked.fields.get("command") or []
    if not command and asked.fields.get("function") is None:
        raise CallerError(
            "command is empty; give the program that runs for each item after `--`: "
            "tidemill submit ... -- python3 program.py {input} {output}",
            what="command",
        )
    compile_metrics(asked.fields["metrics"])
    for key, text in [*((f"command[{n}]", w) for n, w in enumerate(command)), *_texts(asked.fields["env"])]:
        if isinstance(text, str) and not encodable(text):
            raise CallerError.about(key, text, "UTF-8 text", "Put other bytes into a file.")
    check_timeout(asked.fields["timeout_seconds"], asked.fields["state"])
    fields = dict(asked.fields)
    if packed is not None and asked.code is not None:
        fields["code"] = packed.sha256
        fields["command"] = in_code(command, asked.code) or None
    if local and fields["command"]:
        fields["command"] = [str(Path(word).absolute()) if is_here(word) else word for word in fields["command"]]
    spec = build_spec(
        **fields,
        spec_version=spec_version(fields),
        name=name_of(command, fields["function"]) if asked.name is None else asked.name,
        queue=asked.place.queue_name,
        image=asked.place.image,
        image_ref=asked.place.queue.images[asked.place.image].ref,
        resources=asked.place.resources,
        slots=asked.place.slots,
        chunk_size=asked.chunk_size or 1,
        items_total=1,
        chunks_total=1,
    )
    for number, word in enumerate(command):
        if len(word.encode()) >= ARGUMENT_BYTES:
            raise CallerError(
                f"command[{number}] has {len(word.encode())} bytes; Linux accepts {ARGUMENT_BYTES - 1} in an argument.",
                "Put it into a file of the image.",
                what="command",
            )
    return spec


def _texts(env: dict[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in env.items():
        yield f"env.{name}", f"{name}={value}"
