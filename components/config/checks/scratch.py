"""Rules of scratch on the machines' own disks."""

from __future__ import annotations

from collections.abc import Sequence

from components import machines
from components.config.checks.common import Path
from components.config.errors import ConfigError, key_path, shown
from components.config.queue_models import Queue
from components.machines import MachineType


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
