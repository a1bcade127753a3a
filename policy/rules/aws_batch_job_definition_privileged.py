"""No job runs privileged or mounts the machine's own folders: it would be root there, and in every other job of it.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_ContainerProperties.html (privileged, volumes)
"""

import json
from collections.abc import Iterator
from typing import Any

from tidemill.mountable import GIVEN, MOUNTABLE, given, mountable

from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import UNKNOWN, items, look


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
    # The containers of a task mount its volumes.
    containers = [part, *items(look(part, "containers"))]
    points = [point for container in containers for point in items(look(container, "mountPoints"))]
    for index, volume in enumerate(items(look(part, "volumes"))):
        path = look(volume, "host", "sourcePath")
        mounted = [point for point in points if look(point, "sourceVolume") == look(volume, "name")]
        read_only = all(look(point, "readOnly") is True for point in mounted)
        if isinstance(path, str) and not mountable("aws", path) and not given(path, read_only=read_only):
            yield (
                f"{where}.volumes[{index}] is {path} of the machine: a job that has it may be root there. Mount a "
                f"folder below {' or '.join(MOUNTABLE['aws'])}; what {GIVEN} holds for reading, only read-only."
            )


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
