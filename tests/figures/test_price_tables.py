"""The shipped tables by themselves: what no cloud would ever charge is a mistake of whoever read it. What this cannot
prove: that a plausible price is the right one."""

from __future__ import annotations

import datetime
import re
import statistics
from collections import defaultdict
from typing import Any

import pytest

from tests.figures import raw

REGIONS = [(cloud, name) for cloud in ("aws", "gcp") for name in raw.regions(cloud)]
PRICED = [(cloud, name) for cloud, name in REGIONS if {"on_demand", "spot"} & raw.region(cloud, name).keys()]
SERVICES = {
    "disk_gib_month": (0.04, 0.25),
    "public_ipv4_hour": (0.002, 0.02),
    "public_ipv4_spot_hour": (0.001, 0.01),
    "nat_gateway_hour": (0.03, 0.15),
    "interface_endpoint_hour": (0.005, 0.05),
    "kms_key_month": (0.01, 3.0),
    "alarm_metric_month": (0.05, 0.5),
    "dashboard_month": (1.0, 5.0),
    "scheduler_job_month": (0.05, 0.5),
    "scheduled_call": (5e-7, 5e-6),
    "function_call": (1e-7, 1e-6),
    "function_gib_hour": (0.03, 0.15),
    "queue_request": (2e-7, 2e-6),
    "service_cpu_hour": (0.04, 0.2),
    "service_gib_hour": (0.004, 0.02),
}
"""A unit's plausible prices in USD: a price per month where one per hour belongs is far outside."""
LEAST_GPU = 0.15
"""USD per hour of the cheapest GPU, On-Demand; a machine that costs less is priced as its CPUs."""


def dated(part: Any) -> list[dict[str, Any]]:
    """Everything with a date."""
    if not isinstance(part, dict):
        return []
    return [part] if "as_of" in part else [each for value in part.values() for each in dated(value)]


@pytest.mark.parametrize(("cloud", "name"), REGIONS)
def test_every_part_has_a_source_and_a_day_that_has_been(cloud: str, name: str) -> None:
    table = raw.region(cloud, name)
    assert (table["cloud"], table["region"]) == (cloud, name)
    parts = dated(table)
    assert parts
    for part in parts:
        assert part["source"]
        assert datetime.date(2024, 1, 1) <= datetime.date.fromisoformat(part["as_of"]) <= datetime.datetime.now().date()


@pytest.mark.parametrize(("cloud", "name"), PRICED)
def test_machines_cost_what_machines_cost(cloud: str, name: str) -> None:
    table, known = raw.region(cloud, name), raw.machines(cloud)
    fixed, spot = (table.get(part, {}).get("usd_hour", {}) for part in ("on_demand", "spot"))
    assert fixed.keys() | spot.keys() <= known.keys()
    sold = table.get("offerings", {}).get("zones")
    assert sold is None or all(sold[kind] for kind in fixed.keys() | spot.keys())
    for kind, (low, high) in spot.items():
        assert 0 < low <= high <= fixed.get(kind, high), kind
        assert low >= 0.05 * fixed.get(kind, 0), kind
    per_cpu = defaultdict[str, list[float]](list)
    for kind, usd in fixed.items():
        row = known[kind]
        if row["gpus"]:
            assert usd >= LEAST_GPU * row["gpus"], kind
            continue
        assert 0.005 <= usd / row["cpus"] <= 0.5, kind
        # c7i.2xlarge is c7i; of n2-highmem-8 the memory per vCPU is that of n2-highmem.
        per_cpu[kind.split(".")[0] if cloud == "aws" else re.sub(r"-\d+", "", kind)].append(usd / row["cpus"])
    for family, costs in per_cpu.items():
        usual = statistics.median(costs)
        assert all(0.9 * usual <= each <= 1.1 * usual for each in costs), family
    for kind, usd in fixed.items():
        # A GPU costs more than the same machine without one.
        plain = kind.partition("+")[0]
        assert plain == kind or usd > fixed[plain], kind


@pytest.mark.parametrize(("cloud", "name"), PRICED)
def test_services_have_the_units_that_their_names_say(cloud: str, name: str) -> None:
    for what, row in raw.region(cloud, name)["services"].items():
        low, high = SERVICES[what]
        assert low <= row["usd"] <= high, what


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_machines_are_what_machines_are(cloud: str) -> None:
    for kind, row in raw.machines(cloud).items():
        assert row["cpus"] >= 1, kind
        assert 0.2 <= row["memory_mib"] / 1024 / row["cpus"] <= 70, kind
        assert row["architecture"] in ("x86_64", "arm64"), kind
        assert bool(row["gpu_name"]) == bool(row["gpu_memory_mib"]) == bool(row["gpus"]), kind
        assert (row["disks"] or 0) == 0 or row["disk_gib"] > 0, kind
        if row["network_gbps"] is not None:
            assert 0 < row["network_gbps"] <= row["network_burst_gbps"], kind
