"""The table of machine types, read a cloud at a time."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
MARKETS = ("on_demand", "spot")
_WHOLE_GPUS = re.compile(r"(?P<series>\w+)-(?P<kind>\w+)gpu-\d+g")


@dataclass(frozen=True)
class MachineType:
    """A machine type as its cloud describes it; memory in MiB. None is unknown."""

    type: str
    cpus: int
    memory_mib: int
    gpus: int
    """NVIDIA's. A type that is sold with a part of a GPU has one."""
    architecture: str
    """Of the processor: `x86_64` or `arm64`."""
    attach: str | None = None
    """GCP: the accelerator to attach for `gpus`; None where the type brings its own, or has none."""
    gpu_name: str | None = None
    """Such as `A10G`; None also where `gpus` is 0."""
    gpu_memory_mib: int | None = None
    """Of one GPU, or of the part that the type has of it; None also where `gpus` is 0."""
    network_gbps: float | None = None
    """The rate that the machine can always have, over all its network cards."""
    network_burst_gbps: float | None = None
    """The rate that it can have for some minutes, or while others leave it room; never below `network_gbps`."""
    efas: int | None = None
    """The most Elastic Fabric Adapters that it takes, one per network card; 0 on GCP."""
    disks: int | None = None
    """Local disks that come with the type, such as NVMe SSDs; their content ends with the machine."""
    disk_gib: int | None = None
    """Size of one of them, in whole GiB; None also where `disks` is 0."""
    neurons: int = 0
    """AWS's own accelerators, Inferentia or Trainium: devices of the Neuron driver."""
    cards: int | None = None
    """Network cards. A machine's first interface is on the first; the last ones take the Elastic Fabric Adapters."""
    markets: tuple[str, ...] = MARKETS
    """How it is sold: `on_demand`, `spot`, for a time that is booked before (`block`), or `reserved` only."""

    @property
    def efa(self) -> bool | None:
        """True if it takes Elastic Fabric Adapters; never on GCP."""
        return None if self.efas is None else self.efas > 0

    @property
    def local_gib(self) -> int:
        """Room of all local disks together, in GiB; 0 also where it is unknown."""
        return (self.disks or 0) * (self.disk_gib or 0)

    @property
    def family(self) -> str:
        """``c7i`` of c7i.large, ``n2`` of n2-standard-8, ``n1-t4`` of n1-standard-8 with an attached Tesla T4.

        A type with whole GPUs is of a family of its GPU: ``a2`` of a2-highgpu-1g, ``a2-ultra`` of a2-ultragpu-1g.
        """
        if whole := _WHOLE_GPUS.fullmatch(self.type):
            return whole["series"] if whole["kind"] == "high" else f"{whole['series']}-{whole['kind']}"
        series = self.type.split(".")[0] if "." in self.type else self.type.split("-")[0]
        return f"{series}-{self.attach.rpartition('-')[2]}" if self.attach else series


@dataclass(frozen=True)
class Family:
    """A row of ``data/families.json``: the facts about a family that its types do not tell.

    Attributes:
        refused: Why no stack may name it; None if it may.
        image: AWS: the image that a queue must name, where Batch's own has no driver; None where it has.
        disk: GCP: the kind of its network disks.
        cpu_quota: GCP: the region's quota of its vCPUs; Spot machines have one quota for all families.
        gpu_quota: GCP: the region's quota of its GPUs, without the prefix for Spot; None without GPUs.
    """

    refused: str | None = None
    image: str | None = None
    disk: str = "pd-balanced"
    cpu_quota: str = "CPUS"
    gpu_quota: str | None = None


@dataclass(frozen=True)
class Table:
    """The machine types of a cloud, by family and size.

    Attributes:
        types: In the file's order. A type appears again with each accelerator that can be attached to it.
        as_of: The day on which the cloud described them.
        source: What was read on that day.
    """

    types: tuple[MachineType, ...]
    as_of: datetime.date
    source: str


@cache
def table(cloud: str) -> Table:
    """The table of a cloud; one without types for a cloud that has no table, such as `local`."""
    path = DATA / f"{cloud}.json"
    if not path.is_file():
        return Table((), datetime.date.min, "")
    document = json.loads(path.read_text(encoding="utf-8"))
    types = tuple(_machine(dict(zip(document["columns"], row, strict=True))) for row in document["machines"])
    return Table(types, datetime.date.fromisoformat(document["as_of"]), document["source"])


def _machine(row: dict[str, Any]) -> MachineType:
    values: dict[str, Any] = {**row, "markets": tuple(row["markets"])}
    return MachineType(**values)


def family(cloud: str, name: str) -> Family:
    """The row of a family. On AWS most have none: their types say all."""
    return _rows(cloud).get(name) or Family()


def has_row(cloud: str, name: str) -> bool:
    """True if `families.json` has a row of the family."""
    return name in _rows(cloud)


@cache
def _rows(cloud: str) -> Mapping[str, Family]:
    document = json.loads((DATA / "families.json").read_text(encoding="utf-8"))
    return {name: Family(**row) for name, row in document.get(cloud, {}).items()}


@cache
def families(cloud: str) -> Mapping[str, tuple[MachineType, ...]]:
    """The types that a stack may name, by family; both in the table's order."""
    by_family: dict[str, list[MachineType]] = {}
    for machine in table(cloud).types:
        if not family(cloud, machine.family).refused:
            by_family.setdefault(machine.family, []).append(machine)
    return {name: tuple(types) for name, types in by_family.items()}


def find(cloud: str, type: str, *, gpus: int = 0) -> MachineType | None:  # noqa: A002
    """A machine type; None where the table does not have it.

    Args:
        cloud: `aws`, `gcp` or `local`.
        type: Such as `c7i.2xlarge` or `n2-standard-8`.
        gpus: GPUs of the machine. They are part of the type, but for GCP's n1, which has T4s attached to it.
    """
    same = _by_name(cloud).get(type, ())
    return next((machine for machine in same if machine.gpus == gpus), same[0] if same else None)


def cpus_of(cloud: str, kind: str) -> int | None:
    """vCPUs of a machine type; None if unknown. A plan on GCP may name a type by its address, or a custom one.

    Source: https://cloud.google.com/compute/docs/machine-resource#machine_type_comparison
    """
    name = kind.rpartition("/")[2]
    if machine := find(cloud, name):
        return machine.cpus
    return next((int(part) for part in name.split("-") if part.isdigit()), None)


@cache
def _by_name(cloud: str) -> Mapping[str, tuple[MachineType, ...]]:
    by_name: dict[str, tuple[MachineType, ...]] = {}
    for machine in table(cloud).types:
        by_name[machine.type] = (*by_name.get(machine.type, ()), machine)
    return by_name
