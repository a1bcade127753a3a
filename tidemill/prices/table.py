"""The price table, read a region at a time."""

from __future__ import annotations

import datetime
import gzip
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from tidemill.errors import CallerError
from tidemill.prices import own

DATA = Path(__file__).parent / "data"
SUFFIX = ".json.gz"
HOURS_A_MONTH = 730
"""The clouds' own pricing pages count a month so."""
VALUES = {"offerings": "zones", "on_demand": "usd_hour", "spot": "usd_hour", "interruption": "percent"}
"""The parts of a region with a value per machine type, and their key for it."""


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
    fixed = on_demand(cloud, region, type, gpus=gpus)
    part = _region(cloud, region).get("spot", {})
    seen = part.get("usd_hour", {}).get(_key(type, gpus))
    ranged = SpotRange(seen[0], seen[1], _date(part), part["source"]) if seen else None
    known = [each for each in (fixed, ranged) if each]
    if not known:
        return None
    sources = "; ".join(dict.fromkeys(each.source for each in known))
    return MachinePrice(fixed and fixed.usd, ranged, min(each.as_of for each in known), sources)


def on_demand(cloud: str, region: str, type: str, *, gpus: int = 0) -> ServicePrice | None:  # noqa: A002
    """The On-Demand price of a machine per hour, the company's own if it has one; see `machine`."""
    if agreed := own.read(DATA / own.NAME).get((cloud, region, _key(type, gpus))):
        return ServicePrice(agreed.usd_hour, agreed.as_of, agreed.source)
    part = _region(cloud, region).get("on_demand", {})
    usd = part.get("usd_hour", {}).get(_key(type, gpus))
    return None if usd is None else ServicePrice(usd, _date(part), part["source"])


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
    listed = {name for name in covered(cloud) if {"on_demand", "spot"} & _region(cloud, name).keys()}
    return sorted(listed | _agreed(cloud).keys())


def covered(cloud: str) -> list[str]:
    """Regions of a cloud that the table knows anything about."""
    return sorted(path.name.removesuffix(SUFFIX) for path in (DATA / cloud).glob(f"*{SUFFIX}"))


def types(cloud: str) -> frozenset[str]:
    """The types with a known On-Demand price in any region, named as the table names them."""
    listed = (_region(cloud, name).get("on_demand", {}).get("usd_hour", ()) for name in covered(cloud))
    return frozenset(chain.from_iterable([*listed, *_agreed(cloud).values()]))


def content(cloud: str, region: str) -> dict[str, Any]:
    """A region's file as it is stored; nothing where there is no file.

    Raises:
        CallerError: The file is not whole, or has a price that cannot be one: no limit may count it.
    """
    if region not in covered(cloud):
        return {}
    path = DATA / cloud / f"{region}{SUFFIX}"
    try:
        return _checked(json.loads(gzip.decompress(path.read_bytes())))
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
        problem = f"the price file {path} is not whole ({error})."
        raise CallerError(
            problem, "Restore it from git, or delete it and run `python -m ops prices refresh`."
        ) from None


def impossible(part: str, values: Mapping[str, Any]) -> str | None:
    """The first value of a part that cannot be one, such as a price of 0, with its name; None if there is none.

    Args:
        values: By machine type, or USD by service.
    """
    possible = {"offerings": _are_zones, "spot": _is_range, "interruption": _are_percent}.get(part, _is_usd)
    return next((f"{name}: {value!r}" for name, value in values.items() if not possible(value)), None)


def _is_usd(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _is_range(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_usd, value)) and value[0] <= value[1]


def _are_percent(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and 0 <= value[0] <= value[1] <= 100


def _are_zones(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(zone, str) for zone in value)


def _checked(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a region's file, if all that is in it can be."""
    services = content.get("services", {})
    parts = {part: content[part][key] for part, key in VALUES.items() if part in content}
    for part, values in {**parts, "services": {name: row["usd"] for name, row in services.items()}}.items():
        if found := impossible(part, values):
            raise ValueError(f"{part} has {found}")
    for row in (*(content[part] for part in parts), *services.values()):
        _date(row)
        row["source"].strip()
    return content


def _agreed(cloud: str) -> dict[str, list[str]]:
    """The types with a price of the company's own, by region."""
    types: dict[str, list[str]] = {}
    for price in own.read(DATA / own.NAME).values():
        if price.cloud == cloud:
            types.setdefault(price.region, []).append(price.type)
    return types


def _key(type: str, gpus: int) -> str:  # noqa: A002
    """The name of a machine in the table, which includes T4s that are attached to it."""
    return f"{type}+{gpus}t4" if gpus and type.startswith("n1-") else type


@cache
def _region(cloud: str, region: str) -> Mapping[str, Any]:
    return content(cloud, region)


def _date(part: Mapping[str, Any]) -> datetime.date:
    return datetime.date.fromisoformat(part["as_of"])
