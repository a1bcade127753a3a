"""The raw facts of the price and machine tables, read without the product's code."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "tidemill"
MONTH = 730
"""Hours of a month on the clouds' pricing pages."""


@cache
def region(cloud: str, name: str) -> dict[str, Any]:
    """The file of a region."""
    return json.loads(gzip.decompress((DATA / "prices" / "data" / cloud / f"{name}.json.gz").read_bytes()))


@cache
def regions(cloud: str) -> list[str]:
    """All that have a file."""
    return sorted(path.name.removesuffix(".json.gz") for path in (DATA / "prices" / "data" / cloud).iterdir())


@cache
def machines(cloud: str) -> dict[str, dict[str, Any]]:
    """Rows of the table of machines by the names that the price table has: `n1-standard-8+1t4` with a T4."""
    table = json.loads((DATA / "machines" / "data" / f"{cloud}.json").read_text(encoding="utf-8"))
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["machines"]]
    return {f"{row['type']}+{row['gpus']}t4" if row["attach"] else row["type"]: row for row in rows}


@cache
def refused(cloud: str) -> frozenset[str]:
    """Families that no stack may name."""
    rows = json.loads((DATA / "machines" / "data" / "families.json").read_text(encoding="utf-8"))[cloud]
    return frozenset(name for name, row in rows.items() if "refused" in row)


def usd(cloud: str, name: str, kind: str, market: str, percent: int | None = None) -> tuple[float, float] | None:
    """Low and high of an hour of a machine: on Spot at most a percentage of the On-Demand price, which also stands for
    a Spot price that is unknown."""
    table = region(cloud, name)
    fixed = table.get("on_demand", {}).get("usd_hour", {}).get(kind)
    spot = table.get("spot", {}).get("usd_hour", {}).get(kind)
    low, high = spot if market == "spot" and spot else (fixed, fixed)
    if low is None:
        return None
    most = fixed * percent / 100 if market == "spot" and percent is not None and fixed is not None else high
    return min(low, most), min(high, most)


def service(cloud: str, name: str, what: str) -> float | None:
    """The price of a unit of something else."""
    return region(cloud, name).get("services", {}).get(what, {}).get("usd")
