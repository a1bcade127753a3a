"""The keys of a queue on Pub/Sub: its defaults, its machines of one size, and notes on what does less than it says."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tidemill.capacity import Amounts, most_machines, slots
from tidemill.services import pubsub

from ... import machines
from ...config.errors import key_path
from ...config.load import QueueKeys, keys_of, part
from ...config.models import StackConfig
from ...config.queue_models import Queue
from ...machines import MachineType

CLOUD = "gcp"
FAMILIES = ("n2", "n2d", "c3d")
SIZE = 16


def filled(queue: Any) -> Any:
    """A queue's keys with the service's default machines. The models refuse values of a wrong type later."""
    if not isinstance(queue, Mapping):
        return queue
    machines = queue.get("machines", {})
    if not isinstance(machines, Mapping):
        return queue
    return {**queue, "machines": {"families": list(FAMILIES), "cpus": SIZE, **machines}}


def parsed(values: QueueKeys, name: str) -> Queue:
    """A queue with its defaults, for a component that is used alone.

    Raises:
        ConfigError: the first thing that is wrong, as one line.
    """
    return part(Queue, filled(keys_of(values)), "queues", name)


def types(queue: Queue) -> list[MachineType]:
    """The machine types that a queue may start: at most one per family, the preferred one first."""
    wanted = queue.machines
    return one_size(wanted.families, wanted.size, queue.item, wanted.exclude, local=queue.scratch == "local")


def one_size(
    wanted: Sequence[str], size: int, item: Amounts, exclude: Collection[str] = (), *, local: bool = False
) -> list[MachineType]:
    """The machine types of one size: at most one per family, in the order of ``wanted``.

    Of the types of a family with ``size`` vCPUs it is the one with the least memory among those that run the most
    items side by side, and of these the one with the fewest local disks: more of either would be paid for and left
    idle. Families without such a type are left out.

    Args:
        wanted: families, the preferred one first.
        exclude: types that are not taken.
        local: types with local disks.
    """
    chosen = []
    for family in wanted:
        types = [each for each in of_size([family], size, local=local) if each.type not in exclude]
        counts = {each: slots(pubsub.SERVICE, each, item) for each in types}
        if any(counts.values()):
            chosen.append(min(counts, key=lambda each: (-counts[each], each.memory_mib, each.local_gib)))
    return chosen


def of_size(wanted: Sequence[str], size: int, *, local: bool) -> list[MachineType]:
    """The types of some families with this many vCPUs: with local disks, or without those that cost more for them."""
    types = machines.select(CLOUD, wanted, size, size)
    return [each for each in types if (bool(each.local_gib) if local else not each.type.endswith("-lssd"))]


def notes(config: StackConfig, queues: Mapping[str, Queue]) -> list[str]:
    """One line per key that does less than it says; a preview shows them."""
    lines = []
    if config.access.advise and not config.access.submitters:
        lines.append(f"{key_path(['access', 'advise'])}: true changes nothing while access.submitters names none.")
    for name, queue in queues.items():
        lines += _left_out(("queues", name), queue)
        lines += _uneven(("queues", name), queue)
    return lines


def _left_out(path: tuple[str, ...], queue: Queue) -> list[str]:
    """Families without a machine of the queue's size that fits an item."""
    wanted, kept = queue.machines, {machine.family for machine in types(queue)}
    families = machines.families(CLOUD)
    kind = "that machines.exclude leaves in and an item fits" if wanted.exclude else "that an item fits"
    return [
        f"{key_path([*path, 'machines', 'families', index])}: {family} is left out, it has no machine of {wanted.size} "
        f"vCPUs {kind}; it has {machines.sizes(families[family])}."
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
        if (most := most_machines(pubsub.SERVICE, rung.max_cpus, size)) * size != rung.max_cpus
    ]
