"""Shapes: so many machines of a type, in a region or a zone, on a market; and those that satisfy a need."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tidemill import machines, prices
from tidemill.clouds import every
from tidemill.errors import CallerError, nearest
from tidemill.machines import MachineType

Market = Literal["spot", "on_demand"]
MARKETS: tuple[Market, ...] = ("spot", "on_demand")
CHINA = ("cn-north-1", "cn-northwest-1")
"""Regions of a partition of their own: a login to it reaches no other region, and no other login reaches it."""
BYTES_PER_GB, MIB = 10**9, 1 << 20
_ZONES = "--one-zone compares its zones."
_SIDES = re.compile("north|south|east|west|central")
MOST_MACHINES = 1000
"""A shape of more machines helps no one: larger types exist."""


@dataclass(frozen=True)
class Region:
    """A region and its cloud."""

    cloud: str
    name: str


@dataclass(frozen=True)
class MachineShape:
    """So many machines of one type on one market.

    Attributes:
        cloud: `aws` or `gcp`.
        region: Such as `us-west-2`.
        zone: The zone that all of them are in: on AWS its id, such as `usw2-az1`; None for any zone of the region.
        machine: Their type.
        count: How many.
        market: How they are bought.
    """

    cloud: str
    region: str
    zone: str | None
    machine: MachineType
    count: int
    market: Market

    @property
    def type(self) -> str:
        """The type's name, with attached GPUs: `g5.4xlarge`, `n1-standard-8+1t4`."""
        return type_name(self.machine)

    @property
    def cpus(self) -> int:
        """Of all machines."""
        return self.count * self.machine.cpus

    @property
    def gpus(self) -> int:
        """Of all machines."""
        return self.count * self.machine.gpus

    @property
    def key(self) -> tuple[str, str, str, str, int, str]:
        """Key that tells it from every other shape, and orders shapes when nothing else is known."""
        return (self.cloud, self.region, self.zone or "", self.type, self.count, self.market)


@dataclass(frozen=True)
class Need:
    """Requirements on all machines of a shape together; 0 or None requires nothing.

    Attributes:
        cpus: vCPUs. Machines may have more.
        memory_mib: Memory as the cloud states it. Machines may have more.
        gpus: NVIDIA GPUs: exactly so many, because a GPU too many is too dear. Without GPUs, types with GPUs are out.
        gpu_memory_gb: Memory of each GPU, at least, in GB of 10⁹ bytes, as vendors print it.
        architecture: Of the processors.
        families: Only these, such as `g5` or `n2`; empty for all.
        types: Only these, such as the types of a queue; empty for all.
        markets: How machines may be bought.
    """

    cpus: int = 0
    memory_mib: int = 0
    gpus: int = 0
    gpu_memory_gb: float = 0.0
    architecture: Literal["x86_64", "arm64"] | None = None
    families: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    markets: tuple[Market, ...] = MARKETS

    @property
    def units(self) -> float:
        """The GPUs, else the vCPUs, else the GiB that are asked for."""
        return self.gpus or self.cpus or self.memory_mib / 1024


def type_name(machine: MachineType) -> str:
    """`g5.4xlarge`, or `n1-standard-8+1t4`: a type of GCP with the GPUs that are attached to it."""
    return f"{machine.type}+{machine.gpus}{machine.attach.rpartition('-')[2]}" if machine.attach else machine.type


def shapes(need: Need, regions: Sequence[Region], *, one_zone: bool = False) -> list[MachineShape]:
    """Every shape that satisfies a need.

    Args:
        need: What the machines must have.
        regions: Where to look.
        one_zone: Whether all machines must be in one zone. Then each zone is a shape of its own, where the zones are
            known.

    Raises:
        CallerError: A family is unknown, no machine type has what is asked for, or no region sells one that has.
    """
    clouds = list(dict.fromkeys(region.cloud for region in regions))
    able = {cloud: _able(need, cloud) for cloud in clouds}
    _check_families(need.families, clouds)
    if not any(able.values()):
        raise _nothing(need, clouds)
    fitting = [
        MachineShape(region.cloud, region.name, zone, machine, count, market)
        for region in regions
        for machine, count in able[region.cloud]
        for zone in _zones(region, machine.type, one_zone)
        for market in need.markets
        if market in machine.markets
    ]
    if not fitting:
        named = ", ".join(region.name for region in regions)
        kinds = ", ".join(dict.fromkeys(machine.family for each in able.values() for machine, _ in each))
        raise CallerError(
            f"No machine type with what is asked for is sold in {named}; elsewhere there is: {kinds}.",
            "Name another region with `regions`.",
            what="regions",
            value=named,
        )
    return fitting


def regions_of(names: Iterable[str], *, unlisted: bool = False) -> list[Region]:
    """The regions of both clouds by their names.

    Args:
        names: Such as `us-west-2` or `us-central1`.
        unlisted: Whether a region may be missing in the tables, because its cloud will be asked.

    Raises:
        CallerError: One of them is unknown, or is the name of a zone, or cannot be asked together with the others.
    """
    names = list(dict.fromkeys(names))
    regions = [_region(name, unlisted=unlisted) for name in names]
    chinese = [name for name in names if name in CHINA]
    if chinese and len(names) > 1:
        raise CallerError.about(
            "regions",
            ",".join(names),
            f"{chinese[0]} alone, or regions outside China",
            "A login of AWS in China reaches its own region only, so ask for each region by itself.",
        )
    return regions


def _region(name: str, *, unlisted: bool) -> Region:
    clouds = {region: cloud.name for cloud in every() if cloud.region_form for region in prices.covered(cloud.name)}
    clouds |= {region: cloud for region in CHINA if (cloud := _cloud_of(region))}
    if name in clouds:
        return Region(clouds[name], name)
    region = name[:-1] if name[:-1] in clouds else name.rpartition("-")[0]
    if region in clouds:
        raise CallerError.about("regions", name, "names of regions, not of zones", f"Name {region}. {_ZONES}")
    if zone := _zone_id(name, clouds):
        raise CallerError.about("regions", name, "names of regions, not ids of zones", f"Name {zone}. {_ZONES}")
    form = _cloud_of(name)
    if unlisted and form:
        return Region(form, name)
    names = ", ".join(sorted(clouds))
    meant = nearest(name.lower(), clouds)
    fix = meant.strip() or f"Known regions: {names}.{' With `live=True`, its cloud is asked.' if form else ''}"
    problem = f"There is no region {name!r} that this version knows of."
    raise CallerError(problem, fix, what="regions", value=repr(name), allowed=names)


def _cloud_of(region: str) -> str | None:
    """The cloud whose regions have names of this form."""
    return next((each.name for each in every() if each.region_form and re.fullmatch(each.region_form, region)), None)


def _zone_id(name: str, regions: Iterable[str]) -> str:
    """The region of a zone's id such as `usw2-az1`; empty for any other text."""
    for region in regions:
        if region.count("-") < 2:
            continue
        area, side, number = region.rsplit("-", 2)
        short = area.replace("-", "") + "".join(word[0] for word in _SIDES.findall(side)) + number
        if name.startswith(f"{short}-az"):
            return region
    return ""


def _able(need: Need, cloud: str) -> list[tuple[MachineType, int]]:
    """The types that satisfy a need, each with how many machines it takes."""
    counted = ((machine, _count(need, machine)) for machine in _suited(need, cloud))
    return [(machine, count) for machine, count in counted if 0 < count <= MOST_MACHINES]


def _suited(need: Need, cloud: str) -> Iterator[MachineType]:
    for machine in (each for types in machines.families(cloud).values() for each in types):
        if machine.neurons and not (need.families or need.types):
            continue  # for programs that were compiled for it alone
        if need.architecture not in (None, machine.architecture) or bool(need.gpus) != bool(machine.gpus):
            continue
        if need.families and machine.family not in need.families:
            continue
        if need.types and type_name(machine) not in need.types:
            continue
        gpu_bytes = (machine.gpu_memory_mib or 0) * MIB
        # DescribeInstanceTypes says 22,888 MiB of what is sold as 24 GB.
        if not need.gpus or gpu_bytes >= 0.999 * need.gpu_memory_gb * BYTES_PER_GB:
            yield machine


def _count(need: Need, machine: MachineType) -> int:
    """How many machines have what is needed; 0 where no number of them has the exact number of GPUs."""
    least = max(math.ceil(need.cpus / machine.cpus), math.ceil(need.memory_mib / machine.memory_mib))
    if not need.gpus:
        return least
    count, rest = divmod(need.gpus, machine.gpus)
    return 0 if rest or count < least else count


def _zones(region: Region, type: str, one_zone: bool) -> Sequence[str | None]:  # noqa: A002
    """None stands for any zone; empty where the region does not have the type."""
    sold = prices.offering(region.cloud, region.name, type)
    if sold is None:
        return (None,)
    return sold.zones if one_zone else (None,) * bool(sold.zones)


def _check_families(families: Iterable[str], clouds: Iterable[str]) -> None:
    existing = [family for cloud in clouds for family in machines.families(cloud)]
    for family in families:
        if family not in existing:
            refused = [why for cloud in clouds if (why := machines.family(cloud, family).refused)]
            raise CallerError(
                f"No stack may name the family {family!r}: {refused[0]}."
                if refused
                else f"There is no machine family {family!r}.{nearest(family.split('.')[0], existing)}",
                "Name another one."
                if refused
                else "A family is what a type's name begins with: g5 of g5.4xlarge, n2 of n2-standard-8.",
                what="families",
                value=repr(family),
            )


def _nothing(need: Need, clouds: Collection[str]) -> CallerError:
    """Why no shape satisfies a need: the wish without which one would, and what there is instead."""

    def without(**changes: Any) -> list[MachineType]:
        return [machine for cloud in clouds for machine, _ in _able(replace(need, **changes), cloud)]

    suited = [machine for cloud in clouds for machine in _suited(need, cloud)]
    if suited and need.gpus:
        return _wrong_gpus(need, suited)
    if suited:
        wish, value = ("cpus", need.cpus) if need.cpus else ("memory", need.memory_mib)
        most = max(machine.cpus if need.cpus else machine.memory_mib for machine in suited) * MOST_MACHINES
        unit = "vCPUs" if need.cpus else "MiB"
        return CallerError.about(
            wish, value, f"at most {most:,} {unit}: {MOST_MACHINES:,} machines", "Ask for a part of it."
        )
    if others := without(gpu_memory_gb=0.0):
        best = max(others, key=lambda machine: machine.gpu_memory_mib or 0)
        most = (best.gpu_memory_mib or 0) * MIB / BYTES_PER_GB
        allowed = f"at most {most:.0f} GB, which {type_name(best)} has"
        return CallerError.about("gpu_memory", need.gpu_memory_gb, allowed, "Ask for less, or for other families.")
    if others := without(architecture=None):
        kinds = ", ".join(sorted({machine.architecture for machine in others}))
        return CallerError.about("arch", need.architecture, kinds, "No other machine has what is asked for.")
    others = without(families=(), types=())
    gpus_alone = bool(need.families) and not need.gpus and bool(without(gpus=1, cpus=0, memory_mib=0))
    return _wrong_families(need, others, gpus_alone=gpus_alone)


def _wrong_families(need: Need, others: Iterable[MachineType], *, gpus_alone: bool) -> CallerError:
    kinds = ", ".join(list(dict.fromkeys(machine.family for machine in others))[:8])
    if not kinds:
        return CallerError("No machine type has all that is asked for.", "Ask for less at a time.", what="gpus")
    allowed = f"families that have what is asked for, such as {kinds}"
    fix = "Say how many GPUs with `gpus`." if gpus_alone else "Name other families, or none."
    return CallerError.about("families", ",".join(need.families or need.types), allowed, fix)


def _wrong_gpus(need: Need, suited: Iterable[MachineType]) -> CallerError:
    first: dict[int, MachineType] = {}
    for machine in suited:
        first.setdefault(machine.gpus, machine)
    have = ", ".join(f"{size} ({type_name(first[size])})" for size in sorted(first))
    possible = [size for size in sorted(first) if need.gpus % size == 0]
    if possible:
        fix = "Ask for fewer CPUs or less memory than the machines of so many GPUs have."
        return CallerError(
            f"gpus is {need.gpus}, and no machines with exactly so many have the CPUs and the memory asked for.",
            fix,
            what="gpus",
            value=str(need.gpus),
        )
    more = min(-(-need.gpus // size) * size for size in first)
    allowed = f"a multiple of what one of these machines has: {have}"
    return CallerError.about("gpus", need.gpus, allowed, f"Ask for {more}, or for other families.")
