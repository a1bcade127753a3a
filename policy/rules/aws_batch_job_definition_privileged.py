"""No job runs privileged: it would be root on the machine and in every other job there.

Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_ContainerProperties.html (privileged)
"""

import json
from collections.abc import Iterator
from typing import Any

from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import UNKNOWN, items, look


@resource_rule("No container of a job is privileged.", CRITICAL, "aws:batch/jobDefinition:JobDefinition")
def violations(args: Resource) -> Violations:
    for key in ("containerProperties", "ecsProperties", "nodeProperties"):
        for where, container in _containers(key, _parsed(look(args.props, key))):
            if look(container, "privileged") is True:
                yield f"{where}.privileged is true: the job is root on its machine. Remove it."


def _parsed(value: Any) -> Any:
    """Properties that may be given as JSON; the provider refuses unreadable ones."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _containers(where: str, properties: Any) -> Iterator[tuple[str, Any]]:
    if properties is None or properties is UNKNOWN:
        return
    yield where, properties
    for index, task in enumerate(items(look(properties, "taskProperties"))):
        for number, container in enumerate(items(look(task, "containers"))):
            yield f"{where}.taskProperties[{index}].containers[{number}]", container
    for index, node in enumerate(items(look(properties, "nodeRangeProperties"))):
        yield f"{where}.nodeRangeProperties[{index}].container", look(node, "container")
