"""Checks of a request: everything that would fail later, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tidemill.client.arguments import in_units, mapping, texts
from tidemill.client.health.machine_faults import fleet_errors, image_problems, machine_words
from tidemill.client.health.preflight import check_output, check_packages
from tidemill.client.items.order import order_of
from tidemill.client.items.spool import encodable
from tidemill.client.items.values import ItemValues, fields_of, with_values
from tidemill.client.plan.chunks import ITEM_SECONDS_HERE, Plan, check_sizes, of_equal_weight, plan_chunks
from tidemill.client.plan.limit import new_limit
from tidemill.client.plan.notification import told_by
from tidemill.client.plan.place import Placement, find_place
from tidemill.client.plan.spec import build_spec
from tidemill.client.plan.start import start_within
from tidemill.client.plan.state_settings import (
    CHUNK_SECONDS,
    check_state,
    check_timeout,
    expires_early,
    long_on_spot,
    settings_of,
    timeout_of,
    with_origin,
)
from tidemill.client.plan.tags import checked_tags
from tidemill.client.program.check import Program, check_program, is_here, name_of
from tidemill.client.program.function import ShippedFunction, by_name, takes_input
from tidemill.client.program.git_code import Checkout, check_libs, opened
from tidemill.client.program.packing import pack_for
from tidemill.client.rounds.job_uris import References
from tidemill.client.rounds.predecessors import resolve_after
from tidemill.client.secrets import asked, check_set
from tidemill.client.sending.job_inputs import GivenItems, gather
from tidemill.client.site import Log, Site
from tidemill.client.upload.inputs import check_names
from tidemill.code import CodeArchive, in_code
from tidemill.errors import CallerError, CloudError
from tidemill.job import PARTS, JobSpec, spec_version
from tidemill.metrics import compile_metrics
from tidemill.request import OPTIONS, JobRequest

ARGUMENT_BYTES = 128 * 1024
"""Linux refuses a longer argument: MAX_ARG_STRLEN, https://man7.org/linux/man-pages/man2/execve.2.html."""


@dataclass(frozen=True)
class CheckedRequest:
    """A request that nothing speaks against, as far as reading tells.

    Attributes:
        draft: The spec without what depends on the items.
        place: Where the job runs.
        packed: The folder of code, or None.
        gathered: The items.
        inputs: Named inputs as they were given, with full ids of jobs.
        plan: The items' chunks.
        order: The indexes of the items in the order to send them in; empty for the order of the list.
        item_seconds: How long an item is expected to take; None where that is not known.
    """

    draft: JobSpec
    place: Placement
    packed: CodeArchive | None
    gathered: GivenItems
    inputs: dict[str, str]
    plan: Plan
    order: Sequence[int] = ()
    item_seconds: float | None = None


class CheckedSettings(NamedTuple):
    """The settings of a request, apart from its items.

    Attributes:
        request: The request, with its numbers in one unit, its function by name and its items as values.
        draft: See `CheckedRequest`, as for `place`, `packed` and `inputs`.
        references: The jobs that the request names.
        takes_input: Whether its function has items fetched; None if that is not known, or there is none.
        remarks: On the program.
    """

    request: JobRequest
    draft: JobSpec
    place: Placement
    packed: CodeArchive | None
    inputs: dict[str, str]
    references: References
    takes_input: bool | None
    remarks: list[str]


def check(site: Site, request: JobRequest) -> CheckedRequest:
    """Check everything that would fail later. Nothing is written.

    Raises:
        CallerError: Which argument, its value, what is allowed, what to do.
        CloudError: The queue takes no jobs, or the store did not answer.
    """
    settings = check_settings(site, request)
    request, draft, place, packed, inputs, references, takes, remarks = settings
    gathered = gather(site, request, draft, references, takes_input=takes)
    for remark in remarks:
        request.log(remark)
    draft = gathered.read_as_public(references.waited_for(draft, request.log))
    _check_version(site, draft)
    seconds = request.item_seconds or (CHUNK_SECONDS if draft.state else ITEM_SECONDS_HERE if site.local else None)
    plan = plan_chunks(gathered.spool.count, place.fleet_slots, seconds, request.chunk_size, draft.max_parallel)
    order = order_of(gathered.spool.weights)
    if order and request.chunk_size is None:
        plan = of_equal_weight(plan, [gathered.spool.weights[at] for at in order])
    check_place(site, settings)
    return CheckedRequest(draft, place, packed, gathered, inputs, plan, order, seconds)


def check_settings(site: Site, request: JobRequest) -> CheckedSettings:
    """Check what does not depend on a job's items, its place apart. Nothing is written.

    Raises:
        CallerError: Which argument, its value, what is allowed, what to do.
        CloudError: The store did not answer.
    """
    given = request
    _check_compares(site, request)
    request, function = _with_function(in_units(request))
    draft, place, code, packed = _draft(site, request, function)
    _check_version(site, draft)
    check_set(site, draft.secrets)
    check_state(draft)
    early = expires_early(draft, site.descriptor.expire_jobs_after_days)
    for words in (early, None if site.local else long_on_spot(draft, place.queue, request.item_seconds)):
        if words:
            request.log(words)
    check_packages(site, draft, packed)
    if draft.max_parallel and draft.slots > 1:
        raise CallerError.about("slots", draft.slots, "1 with max_parallel", "Leave one of the two out.")
    check_names(draft.inputs, draft.placeholders)
    folder = None if code is None else Path(_folder(code)).resolve()
    by_itself = function is not None and not isinstance(given.function, str) and (folder is None or function.parts)
    # The files of packed code were checked when it was packed.
    unseen = by_itself or isinstance(given.code, CodeArchive)
    remarks = [] if unseen else list(check_program(Program(draft, folder, site.local)))
    references = References(site)
    inputs = references.of_inputs(draft.inputs)
    if draft.max_parallel and request.longest_first:
        raise CallerError("longest_first and max_parallel are both given.", "Leave one of the two out.")
    takes = None if function is None else function.takes_input
    if takes is None and draft.function:
        takes = takes_input(draft.function, folder)
    return CheckedSettings(request, draft, place, packed, inputs, references, takes, remarks)


def check_place(site: Site, settings: CheckedSettings) -> None:
    """Check, before anything is written, the machines, the queue, and where the outputs go."""
    if not site.local:
        _check_machines(site, settings.place, settings.request.log)
    check_output(site, settings.draft)


def _check_compares(site: Site, request: JobRequest) -> None:
    """Refuse what contradicts itself, or what the pipeline's workers cannot read.

    Raises:
        CallerError: Which argument, and what to do.
    """
    wish = [word for word in ("changed", "new", "force") if getattr(request, word)]
    if len(wish) > 1:
        raise CallerError(f"{' and '.join(wish)} are given.", "Give one of them.", what=wish[1])
    if not wish or wish == ["force"]:
        return
    if request.name is None:
        raise CallerError(
            f"{wish[0]} is given without a name: it compares with earlier jobs of the same name.",
            "Give the job a `name`.",
            what=wish[0],
        )
    newest = site.descriptor.max_spec
    if newest < PARTS["shared"].since:
        raise CallerError(
            f"this pipeline's workers read job specs up to version {newest}, and `{wish[0]}` needs "
            f"{PARTS['shared'].since}.",
            f"Ask the stack's owner to run `pulumi up` with a newer worker, or leave `{wish[0]}` out.",
            what=wish[0],
        )


def _check_version(site: Site, draft: JobSpec) -> None:
    newest = site.descriptor.max_spec
    if newest < draft.spec_version:
        newer = {field for field, part in PARTS.items() if part.since > max(newest, 1) and getattr(draft, field)}
        asking = [f"`{keyword}`" for keyword, option in OPTIONS.items() if newer & {keyword, option.field}]
        asking += ["values as items"] if "item_type" in newer else []
        asking += ["items of public buckets"] if "public" in newer else []
        without = f"leave {' and '.join(asking)} out" if asking else "use an older tidemill"
        raise CallerError(
            f"this pipeline's workers read job specs up to version {newest}, this one is of {draft.spec_version}.",
            f"Ask the stack's owner to run `pulumi up` with a newer worker, or {without}.",
        )


def _check_machines(site: Site, place: Placement, log: Log) -> None:
    """Check, before anything is written, what machines have reported, the image, and that the queue takes jobs."""
    for words in machine_words(site, place.queue_name):
        log(words)
    for error in fleet_errors(site.store)[0]:
        log(f"a machine could not run its worker within the last day: {error.text()}")
    for finding in image_problems(site, place.queue_name, place.image):
        fix = f"`{finding.command}` fixes it." if finding.command else ""
        raise CloudError(f"{finding.check}: {finding.detail}.", fix)
    name = place.queue_name
    state = site.backend(name).queue_states({name: place.queue})[name]
    if not state.accepting:
        raise CloudError(f"queue {name!r} takes no jobs: it is {state.detail}.", "Ask the stack's owner.")
    if not state.running:
        log(f"queue {name!r} is {state.detail}; the job waits until its owner fixes that.")
    else:
        from tidemill.client.watch.explain import known_trouble

        for words in known_trouble(site, name):
            log(words)


def _with_function(request: JobRequest) -> tuple[JobRequest, ShippedFunction | None]:
    """The request with its function by name and its items as values, where they are; and how a function that was given
    as an object travels."""
    items = with_values(request.items, request.items_column, rows=request.function is not None)
    values = items if isinstance(items, ItemValues) else None
    if request.function is None:
        return replace(request, items=items), None
    if isinstance(request.function, str) and values is None:
        # A name alone needs none of what takes functions apart.
        function = by_name(request.function)
    else:
        from tidemill.client.program.importable import check_call, shipped

        function = shipped(request.function, values and values.item_class, values and values.item_type)
        if values is not None and not isinstance(request.function, str):
            check_call(request.function, values.arguments)
    if request.code is not None and function.parts is not None and not function.parts.fingerprints:
        # The folder that is given has its module.
        function = function._replace(parts=None)
    return replace(request, items=items, function=function.name), function


def _draft(
    site: Site, request: JobRequest, function: ShippedFunction | None
) -> tuple[JobSpec, Placement, str | Path | Checkout | None, CodeArchive | None]:
    """The spec with everything except what depends on the items, its place, and its code, as it is and packed."""
    place = find_place(site.descriptor, request)
    if callable(request.command):
        raise CallerError("command is a Python function.", "Give it as `function`.", what="command")
    command = texts("command", request.command or (), "a list of words", "Split it, or give it as `function`.")
    service = site.service(place.queue_name)
    if request.slots > 1 and service.slots == "machine":
        cloud = site.descriptor.cloud.upper()
        request.log(f"`slots` has no effect on {cloud}: a machine runs as many items side by side as fit.")
    state = with_origin(site.store, settings_of(request.state))
    check_libs(request.libs, request.code)
    packed = request.code if isinstance(request.code, CodeArchive) else None
    code = None if isinstance(request.code, CodeArchive) else opened(request.code)
    env = mapping("env", request.env)
    folder, secrets = None if code is None else _folder(code), asked(request.secrets, env)
    fields = {
        **fields_of(request.items),
        "notify": told_by(site, request.notify, request.log),
        "metrics": mapping("metrics", request.metrics),
        "tags": checked_tags(mapping("tags", request.tags), service.tags_billed, request.log),
        "code_origin": code.origin if isinstance(code, Checkout) else packed and packed.origin,
        "timeout_seconds": timeout_of(request.timeout_seconds, state),
        "state": state,
        "inputs": {name: str(value) for name, value in mapping("inputs", request.inputs).items()},
        "env": env,
        "secrets": secrets,
        "secret_store": site.descriptor.secrets if secrets else None,
        "keep_values": request.function is not None,
        "item_type": function and function.item_type,
        "limit": new_limit(site, place, request.max_usd, request.usd_per_item_hour, request.log),
        "after": resolve_after(site, request.after, request.after_success, request.name),
        **{name: getattr(request, name) for name in ("layout", "function", "attempts", "output", "max_parallel")},
        "market": request.market and request.market.replace("-", "_"),
        "start_within_seconds": start_within(service, request),
        "memory_max_mib": None if request.memory_max_mib is None else int(request.memory_max_mib),
        **{name: getattr(request, name) for name in ("pip_index", "wheelhouse")},
    }
    check_sizes(request.item_seconds, request.chunk_size)
    parts = function and function.parts
    if folder is not None or parts is not None:
        packed = pack_for(site, folder, request.libs, command=command, parts=parts)
    if not command and request.function is None:
        raise CallerError("command is empty.", "Give the program that runs for each item: `command`.", what="command")
    compile_metrics(fields["metrics"])
    for key, text in [*((f"command[{n}]", w) for n, w in enumerate(command)), *_texts(fields["env"])]:
        if isinstance(text, str) and not encodable(text):
            raise CallerError.about(key, text, "UTF-8 text", "Put other bytes into a file.")
    check_timeout(fields["timeout_seconds"], state)
    if packed is not None:
        fields["code"] = packed.sha256
    words = _placed_words(site, command, folder)
    spec = build_spec(
        **fields,
        command=words or None,
        spec_version=spec_version(fields),
        name=name_of(command, fields["function"]) if request.name is None else request.name,
        queue=place.queue_name,
        image=place.image,
        image_ref=place.queue.images[place.image].ref,
        resources=place.resources,
        slots=place.slots,
        chunk_size=request.chunk_size or 1,
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
    return spec, place, code, packed


def _placed_words(site: Site, command: Sequence[str], folder: str | Path | None) -> list[str]:
    """A command with files of its code as `{code}/...`, and files of this machine by their full paths where it runs
    here: items run in folders of their own."""
    words = list(command) if folder is None else in_code(command, folder)
    return [str(Path(word).absolute()) if site.local and is_here(word) else word for word in words]


def _texts(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in env.items():
        yield f"env.{name}", f"{name}={value}"


def _folder(code: str | Path | Checkout) -> str | Path:
    return code.folder if isinstance(code, Checkout) else code
