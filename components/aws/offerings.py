"""Checks that a region offers a queue's machine types."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache

import pulumi
import pulumi_aws as aws

from ..config import ConfigError
from ..config.errors import key_path, shown
from ..machines import MachineType

_FILTER_VALUES = 200
"""Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypeOfferings.html"""


def check_offered(queue: str, types: Sequence[MachineType], parent: pulumi.Resource, zones: Sequence[str] = ()) -> None:
    """Refuse families with a type that the region lacks; Batch would refuse them in the middle of an update.

    A login without the permission (a CI reader of an older bootstrap stack) can still preview.

    Args:
        zones: The only zones that machines may start in; empty for all.

    Raises:
        ConfigError: The region lacks some, or these zones all.
    """
    names = tuple(machine.type for machine in types)
    provider, run = parent.get_provider("aws:index:Provider"), asyncio.get_running_loop()
    try:
        sold = _sold(names, (), provider, run)
        there = _sold(names, tuple(zones), provider, run) if zones else sold
    except Exception as error:
        pulumi.log.warn(f"Could not check whether the region offers the machines of queue {queue}: {error}", parent)
        return
    missing = [machine for machine in types if machine.type not in sold]
    if missing:
        families = sorted({machine.family for machine in missing})
        raise ConfigError(
            key_path(["queues", queue, "machines", "families"]),
            shown(families),
            "families that the region sells in every size of machines.cpus, apart from the types in machines.exclude",
            _remedy(types, missing),
        )
    if not there:
        raise ConfigError(
            key_path(["queues", queue, "machines", "zones"]),
            shown([*zones]),
            f"zones that sell at least one of the queue's {len(names)} machine types",
            "Name more zones, or take other families",
        )


def _remedy(types: Sequence[MachineType], missing: Sequence[MachineType]) -> str:
    rest = [machine for machine in types if machine not in missing]
    if not rest:
        return "Take other families, or another region"
    kept = sorted({machine.family for machine in rest})
    if {machine.family for machine in missing} & {*kept}:
        return f"Set exclude: [{', '.join(machine.type for machine in missing)}]"
    return f"Set families: [{', '.join(kept)}]"


@lru_cache(maxsize=64)
def _sold(
    names: tuple[str, ...], zones: tuple[str, ...], provider: pulumi.ProviderResource | None, run: object
) -> set[str]:
    """Those of some types that the region sells, or some of its zones.

    Queues with the same machines ask once per run of a program.
    """
    sold: set[str] = set()
    where = [aws.ec2.GetInstanceTypeOfferingsFilterArgs(name="location", values=[*zones])] if zones else []
    kind = "availability-zone" if zones else "region"
    for start in range(0, len(names), _FILTER_VALUES):
        wanted = aws.ec2.GetInstanceTypeOfferingsFilterArgs(
            name="instance-type", values=list(names[start : start + _FILTER_VALUES])
        )
        opts = pulumi.InvokeOptions(provider=provider)
        answer = aws.ec2.get_instance_type_offerings(filters=[wanted, *where], location_type=kind, opts=opts)
        sold |= set(answer.instance_types)
    return sold
