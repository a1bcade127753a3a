"""Refresh ``components/machines.json`` from EC2: ``python -m components.aws.refresh_machines``.

Needs AWS credentials with only ``ec2:DescribeInstanceTypes``; costs nothing. ``--region`` defaults to the environment's
region. Bare-metal types are left out: Batch starts them, but they take many minutes to boot.
Source: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

import boto3

from components.machines import TABLE, write

FAMILIES = (
    "c5", "c6a", "c6g", "c6i", "c7a", "c7g", "c7i",
    "m5", "m6a", "m6g", "m6i", "m7a", "m7g", "m7i",
    "r5", "r6a", "r6g", "r6i", "r7a", "r7g", "r7i",
    "g4dn", "g5", "g6", "p4d",
)  # fmt: skip


def rows(described: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Table rows from ``InstanceTypes`` entries of DescribeInstanceTypes, by family and size.

    Returns:
        One dict per type: ``type``, ``cpus`` (vCPUs), ``memory_mib``, ``gpus`` (NVIDIA), ``architecture``.
    """
    found = []
    for entry in described:
        name = entry["InstanceType"]
        if name.split(".")[0] not in FAMILIES or entry.get("BareMetal"):
            continue
        architectures = entry["ProcessorInfo"]["SupportedArchitectures"]
        gpus = [gpu for gpu in entry.get("GpuInfo", {}).get("Gpus", []) if gpu["Manufacturer"] == "NVIDIA"]
        found.append(
            {
                "type": name,
                "cpus": entry["VCpuInfo"]["DefaultVCpus"],
                "memory_mib": entry["MemoryInfo"]["SizeInMiB"],
                "gpus": sum(gpu["Count"] for gpu in gpus),
                "architecture": "arm64" if "arm64" in architectures else "x86_64",
            }
        )
    return sorted(found, key=lambda row: (row["type"].split(".")[0], row["cpus"], row["memory_mib"], row["type"]))


def main() -> None:
    """Ask EC2 and rewrite the table in place."""
    parser = argparse.ArgumentParser(description="Refresh components/machines.json from EC2.")
    parser.add_argument("--region", help="the region whose types are listed (default: the environment's)")
    region = parser.parse_args().region
    client = boto3.client("ec2", region_name=region)
    pages = client.get_paginator("describe_instance_types").paginate(
        Filters=[{"Name": "instance-type", "Values": [f"{family}.*" for family in FAMILIES]}]
    )
    described = [entry for page in pages for entry in page["InstanceTypes"]]
    count = write(rows(described), f"EC2 DescribeInstanceTypes, {client.meta.region_name}", TABLE)
    print(f"{TABLE}: {count} types. Review the diff: types that leave the table leave the fleets.")


if __name__ == "__main__":
    main()
