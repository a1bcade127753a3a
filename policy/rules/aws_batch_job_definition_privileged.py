"""No job runs privileged or gets the machine's own folders or devices: it would be root there, in every other job too.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_ContainerProperties.html (privileged, volumes)
"""

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Any

from tidemill.mountable import GIVEN, MOUNTABLE, given, mountable

from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import UNKNOWN, flag, items, look

KEYS = ("containerProperties", "ecsProperties", "eksProperties", "nodeProperties")
_HARMLESS = re.compile(r"/dev/(fuse|nvidia|neuron|infiniband).*")
"""Devices that reach neither the machine's disks nor its memory."""


class AnyCase(dict):
    """An object of a job's JSON, whose keys the provider reads in any case.

    Source: https://pkg.go.dev/encoding/json#Unmarshal
    """

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key.lower())


@resource_rule(
    "No container of a job is privileged or mounts the machine's own folders.",
    CRITICAL,
    "aws:batch/jobDefinition:JobDefinition",
)
def violations(args: Resource) -> Violations:
    for key in KEYS:
        for where, part in _parts(key, _parsed(look(args.props, key))):
            for path in (("privileged",), ("securityContext", "privileged")):
                if flag(look(part, *path)) is True:
                    yield f"{where}.{'.'.join(path)} is true: the job is root on its machine. Remove it."
            yield from _mounts(where, part)
            yield from _devices(where, part)


def _mounts(where: str, part: Any) -> Iterator[str]:
    # The containers of a task mount its volumes.
    containers = [part, *items(look(part, "containers"))]
    points = [point for container in containers for point in items(look(container, "mountPoints"))]
    volumes = [(each, look(each, "host", "sourcePath") or look(each, "hostPath", "path"))
               for each in items(look(part, "volumes"))]  # fmt: skip
    folders = {normpath(path) for _, path in volumes if isinstance(path, str)}
    for index, (volume, path) in enumerate(volumes):
        mounted = [point for point in points if look(point, "sourceVolume") == look(volume, "name")]
        read_only = all(look(point, "readOnly") is True for point in mounted)
        if isinstance(path, str) and not mountable("aws", path) and not given(path, read_only=read_only):
            yield (
                f"{where}.volumes[{index}] is {path} of the machine: a job that has it may be root there. Mount a "
                f"folder below {' or '.join(MOUNTABLE['aws'])}; what {GIVEN} holds for reading, only read-only."
            )
        if isinstance(path, str) and (outer := folders & {str(each) for each in PurePosixPath(normpath(path)).parents}):
            yield (
                f"{where}.volumes[{index}] is {path} of the machine, which lies in {min(outer)}: a job could put a "
                f"link to the machine there. Mount {min(outer)} alone."
            )


def _devices(where: str, part: Any) -> Iterator[str]:
    for index, device in enumerate(items(look(part, "linuxParameters", "devices"))):
        path = look(device, "hostPath")
        if isinstance(path, str) and not _HARMLESS.fullmatch(normpath(path)):
            yield (
                f"{where}.linuxParameters.devices[{index}] is {path} of the machine: a job that has it may be root "
                "there. Remove it."
            )


def _parsed(value: Any) -> Any:
    """Properties that may be given as JSON; the provider refuses unreadable ones."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, object_pairs_hook=lambda pairs: AnyCase((key.lower(), one) for key, one in pairs))
    except ValueError:
        return None


def _parts(where: str, properties: Any) -> Iterator[tuple[str, Any]]:
    """Containers, and the tasks and pods that hold their volumes."""
    if properties is None or properties is UNKNOWN:
        return
    yield where, properties
    groups = [(f"taskProperties[{i}]", task) for i, task in enumerate(items(look(properties, "taskProperties")))]
    for name, group in [*groups, ("podProperties", look(properties, "podProperties"))]:
        yield f"{where}.{name}", group
        for key in ("containers", "initContainers"):
            for number, container in enumerate(items(look(group, key))):
                yield f"{where}.{name}.{key}[{number}]", container
    for index, node in enumerate(items(look(properties, "nodeRangeProperties"))):
        for key in ("container", *KEYS):
            yield from _parts(f"{where}.nodeRangeProperties[{index}].{key}", look(node, key))
