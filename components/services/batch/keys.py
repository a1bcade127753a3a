"""The keys of a queue on AWS Batch: a range of sizes, of which Batch takes what is to be had."""

from collections.abc import Mapping
from typing import Any

from ...config.models import StackConfig
from ...config.queue_models import Queue
from ...machines import MachineType, select

CLOUD = "aws"


def filled(queue: Any) -> Any:
    """A queue's keys with the service's own defaults: it has none."""
    return queue


def types(queue: Queue) -> list[MachineType]:
    """The machine types that a queue may start, in the table's order."""
    wanted = queue.machines
    found = select(CLOUD, wanted.families, wanted.cpus.min, wanted.cpus.max)
    return [machine for machine in found if machine.type not in wanted.exclude]


def notes(config: StackConfig, queues: Mapping[str, Queue]) -> list[str]:
    """Notes on keys that do less than they say: none."""
    return []
