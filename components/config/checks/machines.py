"""Rules of the keys that narrow a queue's machines: the types that it leaves out, their image, their disks."""

import re
from collections.abc import Sequence

from ... import machines
from ...machines import MachineType
from ..errors import ConfigError, key_path, nearest, shown
from ..queue_models import Queue
from .common import Path


def check_image(path: Path, queue: Queue, pattern: re.Pattern[str], allowed: str) -> None:
    """The machine image must be one of the stack's cloud."""
    image = queue.machines.image
    if image is not None and not pattern.fullmatch(image):
        raise ConfigError(
            key_path([*path, "machines", "image"]), shown(image), allowed, "Name a machine image of the stack's cloud"
        )


def unfit(queue: str, settings: Queue, allowed: str, fix: str) -> ConfigError:
    """The error of a queue whose machines cannot start from its `machines.image`."""
    return ConfigError(key_path(["queues", queue, "machines", "image"]), shown(settings.machines.image), allowed, fix)


def left_in(path: Path, queue: Queue, selected: Sequence[MachineType]) -> list[MachineType]:
    """The types that `machines.exclude` leaves in.

    Args:
        selected: The types of the queue's families and sizes.

    Raises:
        ConfigError: it names a type that the queue would not start anyway, or leaves nothing in.
    """
    exclude = queue.machines.exclude
    here = [*path, "machines", "exclude"]
    types = [machine.type for machine in selected]
    for index, name in enumerate(exclude):
        if name not in types:
            guess = nearest(name, types)
            raise ConfigError(
                key_path([*here, index]),
                shown(name),
                f"types of machines.families with machines.cpus: {', '.join(types)}",
                f"Did you mean {guess}?" if guess else "Leave it out; the queue does not start it anyway",
            )
    kept = [machine for machine in selected if machine.type not in exclude]
    if not kept:
        raise ConfigError(
            key_path(here),
            shown(exclude),
            f"fewer than all {len(types)} types of machines.families with machines.cpus",
            "Leave one of them in, add a family, or widen machines.cpus",
        )
    return kept


def check_scratch(path: Path, queue: Queue, cloud: str, selected: Sequence[MachineType]) -> None:
    """With `scratch: local`, every type must have local disks, and enough of them.

    Args:
        selected: The types that the queue may start.
    """
    if queue.scratch != "local":
        return
    without = sorted({machine.family for machine in selected if not machine.local_gib})
    if without or not selected:
        families = machines.families(cloud)
        having = [family for family in families if any(machine.local_gib for machine in families[family])]
        where = f"; {', '.join(without)} have none" if without else " in this size"
        raise ConfigError(
            key_path([*path, "scratch"]),
            shown("local"),
            f"only for machines with disks of their own, of {', '.join(having)}{where}",
            "Take other families, or leave scratch out",
        )
    small = [machine for machine in selected if machine.local_gib < queue.scratch_gib]
    if small:
        sizes = ", ".join(f"{machine.type} {machine.local_gib}" for machine in small[:4])
        raise ConfigError(
            key_path([*path, "scratch_gib"]),
            str(queue.scratch_gib),
            f"{min(machine.local_gib for machine in small)} or less: the local disks of every machine have to hold it "
            f"({sizes} GiB)",
            "Lower scratch_gib, take larger machines, or leave these types out with machines.exclude",
        )
