"""Instance types, from moto's copy of EC2's own table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from moto.ec2.models.instance_types import INSTANCE_TYPES

from localcloud.aws.batch.core import invalid

BUNDLES = {
    "default_x86_64": ("m6i", "c6i", "r6i", "c7i"),
    "optimal": ("m6i", "c6i", "r6i", "c7i"),
    "default_arm64": ("m6g", "c6g", "r6g", "c7g"),
}
"""https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html"""


@dataclass(frozen=True)
class Needs:
    """CPUs, memory in MiB and GPUs that a child requests or that a machine has left."""

    cpus: int
    memory: int
    gpus: int = 0

    def fits(self, room: Needs) -> bool:
        return self.cpus <= room.cpus and self.memory <= room.memory and self.gpus <= room.gpus

    def __add__(self, other: Needs) -> Needs:
        return Needs(self.cpus + other.cpus, self.memory + other.memory, self.gpus + other.gpus)

    def __sub__(self, other: Needs) -> Needs:
        return Needs(self.cpus - other.cpus, self.memory - other.memory, self.gpus - other.gpus)


@dataclass(frozen=True)
class InstanceType:
    """A machine type. ``room`` is what the ECS agent offers; the system keeps some memory for itself."""

    name: str
    architecture: str
    room: Needs


@lru_cache(maxsize=1)
def _table() -> dict[str, InstanceType]:
    table = {}
    for name, facts in INSTANCE_TYPES.items():
        mib = facts["MemoryInfo"]["SizeInMiB"]
        gpus = sum(each.get("Count") or 0 for each in (facts.get("GpuInfo") or {}).get("Gpus", []))
        architecture = "arm64" if "arm64" in facts["ProcessorInfo"]["SupportedArchitectures"] else "x86_64"
        room = Needs(facts["VCpuInfo"]["DefaultVCpus"], mib - max(256, mib // 20), gpus)
        table[name] = InstanceType(name, architecture, room)
    return table


@lru_cache(maxsize=64)
def expand(names: tuple[str, ...]) -> tuple[InstanceType, ...]:
    """Return the types that a compute environment's ``instanceTypes`` mean, smallest first.

    Raises:
        BatchError: EC2 does not have a type or family, or the types mix two architectures.
    """
    found: dict[str, InstanceType] = {}
    for name in names:
        families = BUNDLES.get(name, (name,))
        matching = {k: t for k, t in _table().items() if k == name or k.split(".")[0] in families}
        if not matching:
            raise invalid(f"Instance type {name} does not exist.")
        found |= matching
    if len({each.architecture for each in found.values()}) > 1:
        raise invalid("instanceTypes mixes CPU architectures.")
    return tuple(sorted(found.values(), key=lambda each: (each.room.cpus, each.room.memory, each.name)))
