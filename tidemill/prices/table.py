"""The price table, read a region at a time."""

from __future__ import annotations

import datetime
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
SUFFIX = ".json.gz"
HOURS_A_MONTH = 730
"""The clouds' own pricing pages count a month so."""


@dataclass(frozen=True)
class SpotRange:
    """Spot prices of a machine, in USD per hour: the least and the most over a region's zones and the time seen."""

    low: float
    high: float
    as_of: datetime.date
    source: str


@dataclass(frozen=True)
class MachinePrice:
    """Prices of a running machine, in USD per hour; None is unknown. Disks and addresses come on top."""

    on_demand: float | None
    spot: SpotRange | None
    as_of: datetime.date
    """The older of the two dates, where both are known."""
    source: str


@dataclass(frozen=True)
class ServicePrice:
    """Price of one unit of a service in USD; its name says the unit (`nat_gateway_hour`, `disk_gib_month`)."""

    usd: float
    as_of: datetime.date
    source: str


@dataclass(frozen=True)
class Interruption:
    """How often a Spot machine was taken away, as the cloud published it: a range in percent of a month's machines."""

    low: int
    high: int
    as_of: datetime.date
    source: str


def machine(cloud: str, region: str, type: str, *, gpus: int = 0) -> MachinePrice | None:  # noqa: A002
    """The price of one machine; None where nothing is known of it.

    Args:
        cloud: `aws` or `gcp`.
        region: Such as `us-west-2` or `us-central1`.
        type: Such as `c7i.2xlarge` or `n2-standard-8`.
        gpus: GPUs of the machine. They are part of the type, but for GCP's n1, which has T4s attached to it.
    """
    table = _region(cloud, region)
    name = f"{type}+{gpus}t4" if gpus and type.startswith("n1-") else type
    on_demand, spot = table.get("on_demand", {}), table.get("spot", {})
    fixed, seen = on_demand.get("usd_hour", {}).get(name), spot.get("usd_hour", {}).get(name)
    if fixed is None and seen is None:
        return None
    ranged = SpotRange(seen[0], seen[1], _date(spot), spot["source"]) if seen else None
    parts = [part for part, price in ((on_demand, fixed), (spot, seen)) if price is not None]
    sources = "; ".join(dict.fromkeys(part["source"] for part in parts))
    return MachinePrice(fixed, ranged, min(map(_date, parts)), sources)


def on_demand(cloud: str, region: str, type: str, *, gpus: int = 0) -> ServicePrice | None:  # noqa: A002
    """The On-Demand price of a machine per hour, with the date and source of that alone; see `machine`."""
    price = machine(cloud, region, type, gpus=gpus)
    if price is None or price.on_demand is None:
        return None
    part = _region(cloud, region)["on_demand"]
    return ServicePrice(price.on_demand, _date(part), part["source"])


def interruption(cloud: str, region: str, type: str) -> Interruption | None:  # noqa: A002
    """How often machines of a type are taken away in a region; None where that is unknown, and on GCP always."""
    part = _region(cloud, region).get("interruption", {})
    percent = part.get("percent", {}).get(type)
    return Interruption(percent[0], percent[1], _date(part), part["source"]) if percent else None


def service(cloud: str, region: str, name: str) -> ServicePrice | None:
    """The price of one unit of a service; None where it is unknown. docs/money.md lists the names."""
    row = _region(cloud, region).get("services", {}).get(name)
    return ServicePrice(row["usd"], _date(row), row["source"]) if row else None


@dataclass(frozen=True)
class Offering:
    """Where in a region a machine type is sold."""

    zones: tuple[str, ...]
    """Ids of the zones (`usw2-az1`), which mean the same in every account; empty where the region does not have it."""
    as_of: datetime.date
    source: str


def offering(cloud: str, region: str, type: str) -> Offering | None:  # noqa: A002
    """Where in a region a type is sold; None where that is unknown, and on GCP always."""
    part = _region(cloud, region).get("offerings", {})
    zones = part.get("zones", {}).get(type)
    return None if zones is None else Offering(tuple(zones), _date(part), part["source"])


def regions(cloud: str) -> list[str]:
    """Regions of a cloud with at least one known price; it reads them all."""
    return [name for name in covered(cloud) if {"on_demand", "spot"} & _region(cloud, name).keys()]


def covered(cloud: str) -> list[str]:
    """Regions of a cloud that the table knows anything about."""
    return sorted(path.name.removesuffix(SUFFIX) for path in (DATA / cloud).glob(f"*{SUFFIX}"))


@cache
def types(cloud: str) -> frozenset[str]:
    """The types with a known On-Demand price in any region."""
    return frozenset(
        kind for name in covered(cloud) for kind in _region(cloud, name).get("on_demand", {}).get("usd_hour", ())
    )


@cache
def _region(cloud: str, region: str) -> Mapping[str, Any]:
    if region not in covered(cloud):
        return {}
    return json.loads(gzip.decompress((DATA / cloud / f"{region}{SUFFIX}").read_bytes()))


def _date(part: Mapping[str, Any]) -> datetime.date:
    return datetime.date.fromisoformat(part["as_of"])
