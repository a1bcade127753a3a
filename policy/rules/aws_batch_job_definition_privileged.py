"""No job runs privileged or mounts the machine's own folders: it would be root there, and in every other job of it.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_ContainerProperties.html (privileged, volumes)
"""

import json
from collections.abc import Iterator
from posixpath import normpath
from typing import Any

from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import UNKNOWN, items, look

OWN = ("/boot", "/proc", "/root", "/run", "/sys", "/var/lib/containerd", "/var/lib/docker", "/var/lib/ecs", "/var/run")
"""What starts containers, and its credentials and sockets; others a container may need to read."""


@resource_rule(
    "No container of a job is privileged or mounts the machine's own folders.",
    CRITICAL,
    "aws:batch/jobDefinition:JobDefinition",
)
def violations(args: Resource) -> Violations:
    for key in ("containerProperties", "ecsProperties", "nodeProperties"):
        for where, part in _parts(key, _parsed(look(args.props, key))):
            if look(part, "privileged") is True:
                yield f"{where}.privileged is true: the job is root on its machine. Remove it."
            yield from _mounts(where, part)


def _mounts(where: str, part: Any) -> Iterator[str]:
    for index, volume in enumerate(items(look(part, "volumes"))):
        path = look(volume, "host", "sourcePath")
        if isinstance(path, str) and _of_the_machine(path):
            yield (
                f"{where}.volumes[{index}] is {path} of the machine: a job that has it is root there. Mount a folder "
                "that holds nothing of the machine, such as /mnt/data."
            )


def _of_the_machine(path: str) -> bool:
    """Whether a folder is one of the machine's own, is in one, or holds one."""
    folder = f"{normpath(path)}/".replace("//", "/")
    return any(folder.startswith(f"{each}/") or f"{each}/".startswith(folder) for each in OWN)


def _parsed(value: Any) -> Any:
    """Properties that may be given as JSON; the provider refuses unreadable ones."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _parts(where: str, properties: Any) -> Iterator[tuple[str, Any]]:
    """Containers, and the tasks that hold their volumes."""
    if properties is None or properties is UNKNOWN:
        return
    yield where, properties
    for index, task in enumerate(items(look(properties, "taskProperties"))):
        yield f"{where}.taskProperties[{index}]", task
        for number, container in enumerate(items(look(task, "containers"))):
            yield f"{where}.taskProperties[{index}].containers[{number}]", container
    for index, node in enumerate(items(look(properties, "nodeRangeProperties"))):
        yield f"{where}.nodeRangeProperties[{index}].container", look(node, "container")
