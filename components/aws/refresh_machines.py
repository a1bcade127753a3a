"""Refresh the table of EC2's machine types: ``python -m components.aws.refresh_machines``.

Needs AWS credentials with only ``ec2:DescribeInstanceTypes``; costs nothing. ``--region`` defaults to the environment's
region. Bare-metal types are left out: Batch starts them, but they take many minutes to boot.
Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html
"""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

import boto3

from tidemill.machines.catalog import DATA

from ..machines import MachineType, write

_GB, _GIB = 10**9, 2**30
_MARKETS = {"on-demand": "on_demand", "spot": "spot", "capacity-block": "block"}


def rows(described: Iterable[Mapping[str, Any]]) -> list[MachineType]:
    """The types of ``InstanceTypes`` entries of DescribeInstanceTypes, by family and size."""
    types = [_type(entry) for entry in described if not entry.get("BareMetal")]
    return sorted(types, key=lambda machine: (machine.family, machine.cpus, machine.memory_mib, machine.type))


def _type(entry: Mapping[str, Any]) -> MachineType:
    network, gpus = entry.get("NetworkInfo", {}), _gpus(entry)
    sold = entry.get("SupportedUsageClasses", ("on-demand", "spot"))
    architectures = entry["ProcessorInfo"]["SupportedArchitectures"]
    disks = entry.get("InstanceStorageInfo", {}).get("Disks", [])
    return MachineType(
        entry["InstanceType"],
        entry["VCpuInfo"]["DefaultVCpus"],
        entry["MemoryInfo"]["SizeInMiB"],
        sum(map(_count, gpus)),
        "arm64" if "arm64" in architectures else "x86_64",
        gpu_name=" and ".join(gpu["Name"] for gpu in gpus) or None,
        gpu_memory_mib=min((gpu["MemoryInfo"]["SizeInMiB"] for gpu in gpus), default=None),
        network_gbps=_rate(network, "BaselineBandwidthInGbps"),
        network_burst_gbps=_rate(network, "PeakBandwidthInGbps"),
        efas=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0) if network else None,
        disks=sum(disk["Count"] for disk in disks) if disks or "InstanceStorageSupported" in entry else None,
        disk_gib=min((disk["SizeInGB"] * _GB // _GIB for disk in disks), default=None),
        neurons=sum(device["Count"] for device in entry.get("NeuronInfo", {}).get("NeuronDevices", [])),
        cards=network.get("MaximumNetworkCards"),
        markets=tuple(_MARKETS[each] for each in ("on-demand", "spot", "capacity-block") if each in sold),
    )


def _gpus(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [gpu for gpu in entry.get("GpuInfo", {}).get("Gpus", []) if gpu["Manufacturer"] == "NVIDIA"]


def _count(gpu: Mapping[str, Any]) -> int:
    """A part of a GPU has the count 0, and is one to its programs."""
    return gpu["Count"] or gpu.get("LogicalGpuCount", 0)


def _rate(network: Mapping[str, Any], key: str) -> float | None:
    """Of all cards together; None where one does not tell."""
    rates = [card.get(key) for card in network.get("NetworkCards", [])]
    return round(sum(rates), 3) if rates and None not in rates else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Refresh the table of EC2's machine types.")
    parser.add_argument("--region", help="the region whose types are listed (default: the environment's)")
    region = parser.parse_args().region
    client = boto3.client("ec2", region_name=region)
    described = [
        entry for page in client.get_paginator("describe_instance_types").paginate() for entry in page["InstanceTypes"]
    ]
    count = write(rows(described), f"EC2 DescribeInstanceTypes, {client.meta.region_name}", DATA / "aws.json")
    print(f"{DATA / 'aws.json'}: {count} types. Review the diff: types that leave the table leave the fleets.")


if __name__ == "__main__":
    main()
