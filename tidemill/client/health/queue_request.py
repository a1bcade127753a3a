"""A queue that a pipeline does not have: the change of the stack file that adds it, for the file's owner."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill import capacity, services
from tidemill.client.arguments import memory_mib_of
from tidemill.client.site import Site
from tidemill.descriptor import LEAST_MEMORY_MIB, Descriptor, Queue, Resources
from tidemill.errors import CallerError

if TYPE_CHECKING:
    from tidemill.machines import MachineType

_NAME = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?")
_BOOLEANS = {"false", "no", "off", "null", "on", "true", "yes"}
"""Names that YAML takes for something else where they are not quoted."""
_KEY = "tidemill:queues"
_BLOCK = re.compile(rf"(?P<indent> +)(?P<quote>[\"']?){_KEY}(?P=quote):\s*(#.*)?")
_LINE_OF_KEY = re.compile(r" *[\"']?(?P<key>[^\s\"'#&*{}\[\]]+)[\"']?:(\s.*)?")
_MOST_FAMILIES = 4
_MOST_MIB = 32 << 20


@dataclass(frozen=True)
class NewQueue:
    """A queue that somebody would like to have.

    Attributes:
        name: Its name.
        cpus: vCPUs of an item.
        memory: Memory of an item: "16G", or a number of MiB; None for 2 GiB.
        gpus: GPUs of an item.
        image: Its image, as a stack file names it; None for that of a queue that is there.
        max_cpus: The most vCPUs of its machines; None for the stack file's default.
        file: The stack file, for a patch of it; None for the keys alone.
    """

    name: str
    cpus: int = 1
    memory: str | float | None = None
    gpus: int = 0
    image: str | None = None
    max_cpus: int | None = None
    file: str | Path | None = None


@dataclass(frozen=True)
class QueueRequest:
    """A queue that the owner of a stack file may add.

    Attributes:
        queue: Its name.
        owner: Who owns the pipeline's queues: the stack file's `owner`, else the team.
        patch: A unified diff of the stack file; None where no file was named.
        keys: The keys to add, as YAML.
    """

    queue: str
    owner: str
    patch: str | None
    keys: str


def request_queue(site: Site, wanted: NewQueue) -> QueueRequest:
    """The change of a stack file that adds a queue; see `Pipeline.request_queue`."""
    if site.local:
        raise CallerError("A pipeline of this machine has no stack file.", "Name another pipeline.", what="pipeline")
    descriptor = site.descriptor
    item = _item(descriptor, wanted)
    base, machine_keys = _machines(descriptor, item)
    image = wanted.image or (base.images.get("default") or next(iter(base.images.values()))).ref
    sizes = {"cpus": wanted.cpus, "memory_mib": item.memory_mib, "gpus": item.gpus}
    told = ", ".join(f"{key}: {value}" for key, value in sizes.items() if value)
    lines = [
        f"{json.dumps(wanted.name) if wanted.name in _BOOLEANS else wanted.name}:",
        f"  images: {{default: {json.dumps(image)}}}",
        f"  item: {{{told}}}",
        f"  machines: {machine_keys}",
    ]
    if wanted.max_cpus is not None:
        lines.append(f"  capacity: [{{market: spot, max_cpus: {wanted.max_cpus}}}]")
    keys = "".join(f"{line}\n" for line in ("config:", f"  {_KEY}:", *(f"    {line}" for line in lines)))
    patch = None if wanted.file is None else _patch(descriptor, Path(wanted.file), wanted.name, lines)
    return QueueRequest(wanted.name, owner_of(descriptor), patch, keys)


def owner_of(descriptor: Descriptor) -> str:
    """The owner of a pipeline's queues, in the words of the stack file; else the team."""
    return descriptor.owner or descriptor.team


def may_be_added(name: str) -> bool:
    """True if a stack file takes a queue of this name."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _item(descriptor: Descriptor, wanted: NewQueue) -> Resources:
    """The resources of an item of the queue, with everything checked that needs no machine."""
    if not may_be_added(wanted.name):
        form = "1 to 32 lower-case letters, digits and inner hyphens, a letter first"
        raise CallerError.about("queue", wanted.name, form, "Choose another name.")
    if wanted.name in descriptor.queues:
        fix = f"Submit to it with --queue {wanted.name}."
        raise CallerError(f"This pipeline has a queue {wanted.name!r} already.", fix, what="queue", value=wanted.name)
    memory = memory_mib_of(wanted.memory, None)
    least = {"cpus": (wanted.cpus, 1), "gpus": (wanted.gpus, 0)}
    least |= {"max_cpus": (wanted.max_cpus, wanted.cpus)} if wanted.max_cpus is not None else {}
    for key, (value, lowest) in least.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
            raise CallerError.about(key, value, f"a whole number, at least {lowest}", "Leave it out for the default.")
    if memory is not None and not LEAST_MEMORY_MIB <= memory <= _MOST_MIB:
        allowed = f"from {LEAST_MEMORY_MIB} to {_MOST_MIB} MiB"
        raise CallerError.about("memory", memory, allowed, "Leave it out for 2048.")
    values = {"cpus": wanted.cpus, "gpus": wanted.gpus}
    return Resources.model_validate(values | ({"memory_mib": math.ceil(memory)} if memory is not None else {}))


# ---- machines ------------------------------------------------------------------------------------------------------


def _machines(descriptor: Descriptor, item: Resources) -> tuple[Queue, str]:
    """A queue that is there, and the `machines` of the new one: those of that queue on which an item fits, else the
    families with the cheapest size."""
    for _, queue in sorted(descriptor.queues.items()):
        types = {machine.type for machine in queue.machines}
        if found := _fitting(descriptor, queue.architecture, item, types):
            return queue, _keys_of(found)
    base = min(descriptor.queues.items())[1]
    found = _fitting(descriptor, base.architecture, item)
    if not found:
        what = f"{item.cpus:g} CPUs, {item.memory_mib} MiB and {item.gpus} GPUs"
        raise CallerError(
            f"No machine type of {descriptor.cloud.upper()} is known that holds an item of {what}.",
            "Ask for less.",
            what="item",
            value=what,
        )
    # A queue attaches the same GPUs to every machine.
    same = [each for each in found if (each.cpus, each.attach) == (found[0].cpus, found[0].attach)]
    cheapest = [*dict.fromkeys(machine.family for machine in same)][:_MOST_FAMILIES]
    return base, _keys_of([machine for machine in same if machine.family in cheapest])


def _fitting(
    descriptor: Descriptor, architecture: str, item: Resources, only: Collection[str] = ()
) -> list[MachineType]:
    """The types that hold an item, the cheapest per item first: On-Demand prices order them, others come last."""
    from tidemill import machines, prices

    cloud, region = descriptor.cloud, descriptor.region
    service = services.of_cloud(cloud)
    costs: dict[MachineType, float] = {}
    for family, types in machines.families(cloud).items():
        for machine in () if machines.family(cloud, family).image else types:
            held = capacity.slots(service, machine, item)
            alike = machine.architecture == architecture and not machine.neurons and "spot" in machine.markets
            if not held or not alike or bool(machine.gpus) != bool(item.gpus) or (only and machine.type not in only):
                continue
            price = prices.machine(cloud, region, machine.type, gpus=machine.gpus)
            costs[machine] = price.on_demand / held if price and price.on_demand else float("inf")
    return sorted(costs, key=lambda each: (costs[each], each.cpus))


def _keys_of(found: Sequence[MachineType]) -> str:
    families = ", ".join(dict.fromkeys(machine.family for machine in found))
    sizes = sorted(machine.cpus for machine in found)
    cpus = str(sizes[0]) if sizes[0] == sizes[-1] else f"{{min: {sizes[0]}, max: {sizes[-1]}}}"
    return f"{{families: [{families}], cpus: {cpus}}}"


# ---- the file ------------------------------------------------------------------------------------------------------


def _patch(descriptor: Descriptor, path: Path, name: str, added: Sequence[str]) -> str:
    """The diff of a stack file whose block of queues gets one more, with ends of lines as they are."""
    text = _read(path)
    ends = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    before = text.split("\n")
    lines = [line.removesuffix("\r") for line in before]
    _check_stack(descriptor, path, lines)
    at, indent = _place(path, lines, name)
    new = [f"{indent}{line}{ends}" for line in added]
    old = [f"{line}\n" for line in before[:-1]] + ([before[-1]] if before[-1] else [])
    after = [*old]
    if at == len(old) and old and not old[-1].endswith("\n"):
        after[-1] += ends
    after[at:at] = new
    shown = Path(os.path.relpath(path)).as_posix()
    diff = difflib.unified_diff(old, after, f"a/{shown}", f"b/{shown}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in diff)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        fix = "Name the stack file, or leave it out for the keys."
        raise CallerError(f"{path} cannot be read: {problem}.", fix, what="file", value=str(path)) from error


def _check_stack(descriptor: Descriptor, path: Path, lines: Sequence[str]) -> None:
    for key, wanted in (("team", descriptor.team), ("environment", descriptor.environment)):
        found = re.compile(rf" +[\"']?tidemill:{key}[\"']?:\s*[\"']?(?P<value>[\w-]*)")
        for match in filter(None, map(found.match, lines)):
            if match["value"] != wanted:
                fix = "Name the file of this pipeline's stack."
                raise CallerError(
                    f"{path} is of the {key} {match['value']!r}, and the pipeline of {wanted!r}.", fix, what="file"
                )


def _place(path: Path, lines: Sequence[str], name: str) -> tuple[int, str]:
    """The line after the last queue's, and the indent of the queues' names."""
    blocks = [at for at, line in enumerate(lines) if _BLOCK.fullmatch(line)]
    children = _children(lines, blocks[0]) if len(blocks) == 1 else []
    rest = next((line for line in lines[children[-1] + 1 :] if _content(line)), "") if children else ""
    if not children or (rest and not _LINE_OF_KEY.fullmatch(rest)):
        raise CallerError(
            f"{path} has no one block `{_KEY}:` with a line for each queue.", "Leave it out for the keys.", what="file"
        )
    indent = " " * _indent(lines[children[0]])
    named = [_LINE_OF_KEY.fullmatch(lines[at]) for at in children if _indent(lines[at]) == len(indent)]
    if name in {match["key"] for match in named if match}:
        fix = "Ask its owner to run `pulumi up`, or choose another name."
        raise CallerError(f"{path} has a queue {name!r}, which the stack has not made yet.", fix, what="file")
    return children[-1] + 1, indent


def _children(lines: Sequence[str], at: int) -> list[int]:
    """The lines below a key that are neither empty nor comments."""
    return [number for number in _deeper(lines, at) if _content(lines[number])]


def _deeper(lines: Sequence[str], at: int) -> Iterator[int]:
    for number in range(at + 1, len(lines)):
        if _content(lines[number]) and _indent(lines[number]) <= _indent(lines[at]):
            return
        yield number


def _content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
