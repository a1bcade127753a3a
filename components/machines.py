"""The dated tables of machine types, one per cloud, and which of them a queue may start."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tidemill.capacity import Amounts, slots

TABLE = Path(__file__).parent / "machines.json"
"""What EC2 has."""
GCP_TABLE = Path(__file__).parent / "machines_gcp.json"
"""What Compute Engine has."""
SYSTEM_GIB = 50
"""Disk that a machine's image, Docker and pulled images need in addition to the scratch."""

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


def sizes(machines: Iterable[MachineType]) -> str:
    """The sizes of machines in vCPUs, ascending, for a message."""
    return ", ".join(str(size) for size in sorted({machine.cpus for machine in machines}))


def one_size(wanted: Sequence[str], size: int, item: Amounts) -> list[MachineType]:
    """The Compute Engine types of a GCP queue: at most one per family, in the order of ``wanted``.

    Of the types of a family with ``size`` vCPUs it is the one with the least memory among those that run the most
    items side by side: more memory would be paid for and left idle. Families without such a type are left out.

    Args:
        wanted: families, the preferred one first.
    """
    found = []
    for family in wanted:
        counts = {each: slots("gcp", each, item) for each in select([family], size, size, "gcp")}
        if any(counts.values()):
            found.append(min(counts, key=lambda each: (-counts[each], each.memory_mib)))
    return found


def write(rows: Sequence[Mapping[str, Any]], source: str, table: Path) -> int:
    """Write a table with one line per row, so that a refresh is a readable diff. Returns the number of rows."""
    lines = ",\n    ".join(json.dumps(row) for row in rows)
    today = datetime.date.today().isoformat()
    head = f'{{\n  "as_of": "{today}",\n  "source": {json.dumps(source)},\n  "machines": [\n    '
    table.write_text(f"{head}{lines}\n  ]\n}}\n", encoding="utf-8")
    return len(rows)
