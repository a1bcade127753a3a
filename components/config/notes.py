"""Notes on valid config that may not be what was meant."""

from __future__ import annotations

from components import machines
from components.config.errors import key_path
from components.config.models import StackConfig
from components.config.queue_models import Queue
from tidemill.capacity import most_machines


def notes(config: StackConfig) -> list[str]:
    """One line per key that does less than it says; a preview shows them."""
    if config.cloud != "gcp":
        return []
    found = []
    if config.access.advise and not config.access.submitters:
        found.append(f"{key_path(['access', 'advise'])}: true changes nothing while access.submitters names none.")
    for name, queue in config.queues.items():
        found += _left_out(("queues", name), queue)
        found += _uneven(("queues", name), queue)
    return found


def _left_out(path: tuple[str, ...], queue: Queue) -> list[str]:
    """Families without a machine of the queue's size that fits an item."""
    wanted, kept = queue.machines, {machine.family for machine in queue.types("gcp")}
    known = machines.families("gcp")
    kind = "that machines.exclude leaves in and an item fits" if wanted.exclude else "that an item fits"
    return [
        f"{key_path([*path, 'machines', 'families', index])}: {family} is left out, it has no machine of {wanted.size} "
        f"vCPUs {kind}; it has {machines.sizes(known[family])}."
        for index, family in enumerate(wanted.families)
        if family not in kept
    ]


def _uneven(path: tuple[str, ...], queue: Queue) -> list[str]:
    """Rungs whose max_cpus is not a multiple of the machine size."""
    size = queue.machines.size
    return [
        f"{key_path([*path, 'capacity', index, 'max_cpus'])}: {rung.max_cpus} is not a multiple of machines.cpus "
        f"({size}); {most} machines, {most * size} vCPUs, are the most."
        for index, rung in enumerate(queue.capacity)
        if (most := most_machines("gcp", rung.max_cpus, size)) * size != rung.max_cpus
    ]
