"""The dated tables of machine types, one a cloud, and what of a machine an item can use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).parent / "machines.json"
"""What EC2 has."""
GCP_TABLE = Path(__file__).parent / "machines_gcp.json"
"""What Compute Engine has."""
SYSTEM_GIB = 50
"""Disk that a machine's image, Docker and pulled images need beside the scratch."""

_TABLES = {"aws": TABLE, "gcp": GCP_TABLE}


@dataclass(frozen=True)
class MachineType:
    """A machine type as its cloud describes it; memory in MiB."""

    type: str
    cpus: int
    memory_mib: int
    gpus: int
    architecture: str
    attach: str | None = None
    """GCP: the accelerator to attach for `gpus`; None where the type brings its own, or has none."""

    @property
    def family(self) -> str:
        """``c7i`` of c7i.large, ``n2`` of n2-standard-8, ``n1-t4`` of n1-standard-8 with an attached Tesla T4."""
        series = self.type.split(".")[0] if "." in self.type else self.type.split("-")[0]
        return f"{series}-{self.attach.rpartition('-')[2]}" if self.attach else series

    @property
    def usable_memory_mib(self) -> int:
        """What containers can get: kernel, agent and page tables take about 2 % and 350 MiB (measured on no cloud).

        Batch schedules by what the ECS agent registers, which is less than the type's memory.
        Source: https://docs.aws.amazon.com/batch/latest/userguide/memory-management.html
        """
        return int(self.memory_mib * 0.98) - 350

    def fits(self, cpus: int, memory_mib: int, gpus: int) -> bool:
        """Whether one item of that size can be placed on an empty machine of this type."""
        return cpus <= self.cpus and memory_mib <= self.usable_memory_mib and gpus <= self.gpus

    def slots(self, cpus: int, memory_mib: int, gpus: int) -> int:
        """How many items of that size run side by side on a machine of this type."""
        by_memory = max(0, self.usable_memory_mib) // memory_mib
        return min(self.cpus // cpus, by_memory, *([self.gpus // gpus] if gpus else []))


@cache
def _rows(cloud: str) -> tuple[MachineType, ...]:
    rows = json.loads(_TABLES[cloud].read_text(encoding="utf-8"))["machines"]
    return tuple(MachineType(**row) for row in rows)


@cache
def table() -> dict[str, MachineType]:
    """All known EC2 types by name, in the table's order (family, then size)."""
    return {machine.type: machine for machine in _rows("aws")}


def families(cloud: str = "aws") -> dict[str, list[MachineType]]:
    """Known types of a cloud by family."""
    found: dict[str, list[MachineType]] = {}
    for machine in _rows(cloud):
        found.setdefault(machine.family, []).append(machine)
    return found


def select(wanted: Sequence[str], min_cpus: int, max_cpus: int, cloud: str = "aws") -> list[MachineType]:
    """Every known type of the wanted families with ``min_cpus`` to ``max_cpus`` vCPUs, in the table's order.

    The table's order, not the caller's: the cloud picks by price and free capacity, and a reordered list in a stack
    file must not look like a change.
    """
    return [m for m in _rows(cloud) if m.family in wanted and min_cpus <= m.cpus <= max_cpus]


def one_size(wanted: Sequence[str], size: int, cpus: int, memory_mib: int, gpus: int) -> list[MachineType]:
    """The Compute Engine types of a GCP queue: at most one a family, in the order of ``wanted``.

    Of the types of a family with ``size`` vCPUs it is the one with the least memory among those that run the most
    items side by side: more memory would be paid for and left idle. Families without such a type are left out.

    Args:
        wanted: families, the preferred one first.
        size: vCPUs of each machine.
        cpus: vCPUs of an item.
        memory_mib: memory of an item in MiB.
        gpus: GPUs of an item.
    """
    found = []
    for family in wanted:
        fitting = [m for m in select([family], size, size, "gcp") if m.fits(cpus, memory_mib, gpus)]
        if fitting:
            found.append(min(fitting, key=lambda m: (-m.slots(cpus, memory_mib, gpus), m.memory_mib)))
    return found
