"""Which machine types a queue may start, of those that the clouds have (`tidemill.machines`)."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path

from tidemill.capacity import Amounts, slots
from tidemill.machines import MachineType
from tidemill.machines import families as every_family
from tidemill.machines.catalog import DATA

TABLES = {"aws": DATA / "aws.json", "gcp": DATA / "gcp.json"}
"""What EC2 and Compute Engine have."""
SYSTEM_GIB = 50
"""Disk that a machine's image, Docker and pulled images need in addition to the scratch."""
FAMILIES = {
    "aws": (
        "c5", "c5d", "c6a", "c6g", "c6gd", "c6i", "c6id", "c7a", "c7g", "c7gd", "c7i", "c8g", "c8gd",
        "g4dn", "g5", "g6",
        "i4i",
        "m5", "m5d", "m6a", "m6g", "m6gd", "m6i", "m6id", "m7a", "m7g", "m7gd", "m7i", "m8g", "m8gd",
        "p4d",
        "r5", "r5d", "r6a", "r6g", "r6gd", "r6i", "r6id", "r7a", "r7g", "r7gd", "r7i", "r8g", "r8gd",
    ),
    "gcp": ("c3", "c3d", "c4a", "e2", "g2", "n1", "n1-t4", "n2", "n2d", "t2a"),
}  # fmt: skip
"""The families that a stack may name, by cloud: those whose images, disks and GPUs this package knows how to set up."""


@cache
def families(cloud: str = "aws") -> dict[str, list[MachineType]]:
    """Types of a cloud that a queue may start, by family."""
    known = every_family(cloud)
    return {family: list(known[family]) for family in FAMILIES[cloud] if family in known}


@cache
def table() -> dict[str, MachineType]:
    """The EC2 types that a queue may start by name, in the table's order (family, then size)."""
    return {machine.type: machine for family in families().values() for machine in family}


def select(
    wanted: Sequence[str], min_cpus: int, max_cpus: int, cloud: str = "aws", *, local: bool = False
) -> list[MachineType]:
    """Every known type of the wanted families with ``min_cpus`` to ``max_cpus`` vCPUs, in the table's order.

    The table's order, not the caller's: the cloud picks by price and free capacity, and a reordered list in a stack
    file must not look like a change.

    Args:
        local: GCP: the types with local disks (``-lssd``) and no others, instead of those without.
    """
    known = (machine for family, types in families(cloud).items() if family in wanted for machine in types)
    found = [machine for machine in known if min_cpus <= machine.cpus <= max_cpus]
    return found if cloud == "aws" else [machine for machine in found if bool(machine.local_gib) is local]


def sizes(machines: Iterable[MachineType]) -> str:
    """The sizes of machines in vCPUs, ascending, for a message."""
    return ", ".join(str(size) for size in sorted({machine.cpus for machine in machines}))


def one_size(
    wanted: Sequence[str], size: int, item: Amounts, exclude: Collection[str] = (), *, local: bool = False
) -> list[MachineType]:
    """The Compute Engine types of a GCP queue: at most one per family, in the order of ``wanted``.

    Of the types of a family with ``size`` vCPUs it is the one with the least memory among those that run the most
    items side by side: more memory would be paid for and left idle. Families without such a type are left out.

    Args:
        wanted: families, the preferred one first.
        exclude: types that are not taken.
        local: types with local disks.
    """
    found = []
    for family in wanted:
        types = [each for each in select([family], size, size, "gcp", local=local) if each.type not in exclude]
        counts = {each: slots("gcp", each, item) for each in types}
        if any(counts.values()):
            found.append(min(counts, key=lambda each: (-counts[each], each.memory_mib)))
    return found


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
