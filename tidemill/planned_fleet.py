"""Fleets as a plan describes them: the machines that a compute environment or a group may start, and their cost.

Policy rules and reviews read the inputs of resources here. A value that only `up` will know is absent, or anything but
what its field holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tidemill.capacity import UsdRange, fleet_usd, most_machines
from tidemill.machines import cpus_of
from tidemill.prices import MachinePrice
from tidemill.services import of_cloud

Market = Literal["spot", "on_demand"]


@dataclass(frozen=True)
class PlannedFleet:
    """Machines that one compute environment or machine group may start.

    Attributes:
        urn: URN of the resource that sizes it.
        market: `spot` or `on_demand`; None if unknown.
        cpus: vCPUs that it may reach; None if unknown.
        types: Its machine types.
        gpus: GPUs that are attached to each machine, where they are not part of its type.
        machines: How many, whatever their type; None where `cpus` limits them.
        staying: How many of them stay without work.
        percent: The most to pay on Spot, in percent of the On-Demand price.
    """

    urn: str
    market: Market | None
    cpus: int | None
    types: tuple[str, ...]
    gpus: int = 0
    machines: int | None = None
    staying: int = 0
    percent: int | None = None


def of_environment(urn: str, inputs: Mapping[str, Any]) -> PlannedFleet:
    """Read the fleet of a compute environment of AWS Batch."""
    kind = _at(inputs, "computeResources", "type")
    market: Market | None = (
        "spot" if kind in ("SPOT", "FARGATE_SPOT") else "on_demand" if isinstance(kind, str) else None
    )
    cpus, percent = (whole(_at(inputs, "computeResources", key)) for key in ("maxVcpus", "bidPercentage"))
    return PlannedFleet(urn, market, cpus, _texts(_at(inputs, "computeResources", "instanceTypes")), percent=percent)


def of_group(
    urn: str, group: Mapping[str, Any], template: Mapping[str, Any] | None, autoscaler: Mapping[str, Any] | None
) -> PlannedFleet:
    """Read the fleet of an instance group of Compute Engine, its template and the autoscaler that sizes it."""
    selections = _items(_at(group, "instanceFlexibilityPolicy", "instanceSelections"))
    types = tuple(kind for one in selections for kind in _texts(_at(one, "machineTypes")))
    types = types or _texts(_at(template, "machineType"))
    if autoscaler is None:
        most = least = whole(_at(group, "targetSize"))
    else:
        most, least = (whole(_at(autoscaler, "autoscalingPolicy", f"{which}Replicas")) for which in ("max", "min"))
    size = max((one_size for kind in types if (one_size := cpus_of("gcp", kind))), default=None)
    cpus = most * size if most is not None and size else None
    gpus = sum(whole(_at(one, "count")) or 0 for one in _items(_at(template, "guestAccelerators")))
    return PlannedFleet(urn, market_of(template) if template else None, cpus, types, gpus, most, least or 0)


def market_of(template: Mapping[str, Any]) -> Market | None:
    """The market of a template's machines: `spot` or `on_demand`; None if unknown."""
    scheduling = template.get("scheduling")
    if scheduling is not None and not isinstance(scheduling, Mapping):
        return None
    model, preemptible = (_at(template, "scheduling", key) for key in ("provisioningModel", "preemptible"))
    if isinstance(model, str):
        return "spot" if model == "SPOT" else "on_demand"
    if model is not None:
        return None
    markets: dict[str, Market] = {"true": "spot", "false": "on_demand", "none": "on_demand"}
    return markets.get(str(preemptible).lower())


def hourly(cloud: str, fleet: PlannedFleet, price: Callable[[str], MachinePrice | None]) -> UsdRange:
    """Cost of a fleet per hour when all of its machines run.

    Args:
        price: Of a type; None where it is unknown.
    """
    counts, countless, service = {}, set(), of_cloud(cloud)
    for kind in sorted(set(fleet.types)):
        size, counts[kind] = cpus_of(cloud, kind), fleet.machines or 0
        if fleet.machines is None and fleet.cpus is not None and size:
            counts[kind] = most_machines(service, fleet.cpus, size)
        elif fleet.machines is None:
            countless.add(kind)
    return fleet_usd(counts, fleet.market, lambda kind: None if kind in countless else price(kind), fleet.percent)


def whole(value: Any) -> int | None:
    """A known number, or its text, as a whole one."""
    if isinstance(value, str) and value.strip().isdigit():
        return int(value)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(each for each in _items(value) if each and isinstance(each, str))
