"""Which machine types a queue may start, of those that the clouds have (`tidemill.machines`)."""

import dataclasses
import datetime
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tidemill.machines import MachineType, families

__all__ = ["SYSTEM_GIB", "MachineType", "families", "select", "sizes", "write"]

SYSTEM_GIB = 50
"""Disk that a machine's image, Docker and pulled images need in addition to the scratch."""


def select(cloud: str, wanted: Sequence[str], min_cpus: int, max_cpus: int) -> list[MachineType]:
    """Every known type of the wanted families with ``min_cpus`` to ``max_cpus`` vCPUs, in the table's order.

    The table's order, not the caller's: the cloud picks by price and free capacity, and a reordered list in a stack
    file must not look like a change.
    """
    candidates = (machine for family, types in families(cloud).items() if family in wanted for machine in types)
    return [machine for machine in candidates if min_cpus <= machine.cpus <= max_cpus]


def sizes(machines: Iterable[MachineType]) -> str:
    """The sizes of machines in vCPUs, ascending, for a message."""
    return ", ".join(str(size) for size in sorted({machine.cpus for machine in machines}))


def write(machines: Sequence[MachineType], source: str, table: Path, as_of: datetime.date | None = None) -> int:
    """Write a table with one line per type, so that a refresh is a readable diff. Returns the number of types.

    Args:
        machines: In their order.
        source: What was asked.
        table: The file.
        as_of: When; None for today.
    """
    columns = [field.name for field in dataclasses.fields(MachineType)]
    lines = ",\n    ".join(json.dumps([getattr(machine, name) for name in columns]) for machine in machines)
    head = {
        "as_of": (as_of or datetime.datetime.now(datetime.UTC).date()).isoformat(),
        "source": source,
        "columns": columns,
    }
    parts = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items())
    table.write_text(f'{{\n{parts}  "machines": [\n    {lines}\n  ]\n}}\n', encoding="utf-8")
    return len(machines)
