"""The dated table of machine types, and what of a machine an item can use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).parent / "machines.json"


@dataclass(frozen=True)
class MachineType:
    """A machine type as EC2 describes it; memory in MiB."""

    type: str
    cpus: int
    memory_mib: int
    gpus: int
    architecture: str

    @property
    def family(self) -> str:
        """The part before the dot: ``c7i``."""
        return self.type.split(".")[0]

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


@cache
def table() -> dict[str, MachineType]:
    """All known types by name, in the table's order (family, then size)."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["machines"]
    return {row["type"]: MachineType(**row) for row in rows}


def families() -> dict[str, list[MachineType]]:
    """Known types by family."""
    found: dict[str, list[MachineType]] = {}
    for machine in table().values():
        found.setdefault(machine.family, []).append(machine)
    return found


def select(wanted: Sequence[str], min_cpus: int, max_cpus: int) -> list[MachineType]:
    """Every known type of the wanted families with ``min_cpus`` to ``max_cpus`` vCPUs, in the table's order.

    The table's order, not the caller's: the cloud picks by price and free capacity, and a reordered list in a stack
    file must not look like a change.
    """
    return [m for m in table().values() if m.family in wanted and min_cpus <= m.cpus <= max_cpus]
