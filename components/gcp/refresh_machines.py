"""Refresh the table of Compute Engine's machine types: ``python -m components.gcp.refresh_machines``.

Needs a Google login (application default credentials) with ``compute.machineTypes.list`` on a project and nothing else;
costs nothing. A type that is in one zone of the world is listed if ``families.json`` has its family. Bare-metal and
shared-core types are left out. Which GPUs can be attached to an n1 machine, which types are sold on some markets
only, and how large a local disk is, is no property of the type: those facts are ours.
Sources: https://cloud.google.com/compute/docs/reference/rest/v1/machineTypes/aggregatedList,
https://cloud.google.com/compute/docs/gpus#t4-gpus,
https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines and
https://docs.cloud.google.com/compute/docs/compute-optimized-machines
"""

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import google.auth
from google.auth.transport.requests import AuthorizedSession

from tidemill.machines.catalog import DATA, MARKETS, has_row

from ..machines import MachineType, write

T4 = "nvidia-tesla-t4"
GPUS = {
    "nvidia-l4": ("L4", 24576),
    T4: ("T4", 16384),
    "nvidia-tesla-a100": ("A100", 40960),
    "nvidia-a100-80gb": ("A100", 81920),
    "nvidia-h100-80gb": ("H100", 81920),
    "nvidia-h100-mega-80gb": ("H100", 81920),
    "nvidia-h200-141gb": ("H200", 144384),
    "nvidia-b200": ("B200", 184320),
    "nvidia-rtx-pro-6000": ("RTX PRO 6000", 98304),
}
"""Name and memory in MiB by accelerator.
Source: https://cloud.google.com/compute/docs/gpus"""
MOST_CPUS_OF_A_T4 = 32
"""One T4 supports up to 48 vCPUs, and n1 has no size between 32 and 64."""

SOLD = {
    **dict.fromkeys(("a3-highgpu-1g", "a3-highgpu-2g", "a3-highgpu-4g"), ("spot",)),
    **dict.fromkeys(("a3-ultragpu-8g", "a4-highgpu-8g"), ("spot", "reserved")),
    "h3-standard-88": ("on_demand",),
}
"""Markets of the types that are not sold both On-Demand and as Spot. Flex-start is none: a group has it by resize
requests alone, which the autoscaler does not make."""
LOCAL_SSD_GIB = 375
DISKS_GIB = {"z3": 3000}
"""Size of a local disk by series, where it is not `LOCAL_SSD_GIB`.
Source: https://cloud.google.com/compute/docs/disks/local-ssd"""
ALIASES = ("z3-highmem-88", "z3-highmem-176")
"""Second names of types whose first name tells the disks: z3-highmem-88-highlssd, z3-highmem-176-standardlssd."""

_PREDEFINED = re.compile(r"[a-z0-9]+-(standard|highcpu|highmem|(high|mega|ultra)gpu)-\d+g?(-(standard|high)?lssd)?")
_PAGE = 500


def rows(described: Iterable[Mapping[str, Any]]) -> list[MachineType]:
    """The types of ``machineTypes`` resources, by family and size, each once for all zones.

    Compute Engine does not describe their networks, so these stay unknown.
    """
    by_name: dict[str, MachineType] = {}
    for entry in described:
        if not _PREDEFINED.fullmatch(entry["name"]) or entry.get("isSharedCpu") or entry.get("deprecated"):
            continue
        machine = _type(entry)
        if machine.type in ALIASES or not has_row("gcp", machine.family):
            continue
        by_name[machine.type] = machine
        if machine.type.startswith(("n1-standard-", "n1-highmem-")) and machine.cpus <= MOST_CPUS_OF_A_T4:
            gpu, mib = GPUS[T4]
            attached = replace(machine, gpus=1, attach=T4, gpu_name=gpu, gpu_memory_mib=mib)
            by_name[f"{machine.type}+{T4}"] = attached
    return sorted(by_name.values(), key=lambda m: (m.family, m.cpus, m.memory_mib, m.type))


def _type(entry: Mapping[str, Any]) -> MachineType:
    accelerators = entry.get("accelerators", [])
    gpu, mib = GPUS.get(accelerators[0].get("guestAcceleratorType"), (None, None)) if accelerators else (None, None)
    disks = entry.get("bundledLocalSsds", {}).get("partitionCount", 0)
    return MachineType(
        entry["name"],
        entry["guestCpus"],
        entry["memoryMb"],
        sum(each["guestAcceleratorCount"] for each in accelerators),
        "arm64" if entry.get("architecture") == "ARM64" else "x86_64",
        gpu_name=gpu,
        gpu_memory_mib=mib,
        efas=0,
        disks=disks,
        disk_gib=DISKS_GIB.get(entry["name"].partition("-")[0], LOCAL_SSD_GIB) if disks else None,
        markets=SOLD.get(entry["name"], MARKETS),
    )


def ask(session: AuthorizedSession, project: str) -> Iterator[dict[str, Any]]:
    """Every machine type of every zone.

    Raises:
        requests.HTTPError: the project does not exist or the login may not list.
    """
    url = f"https://compute.googleapis.com/compute/v1/projects/{project}/aggregated/machineTypes"
    token = ""
    while True:
        answer = session.get(url, params={"maxResults": _PAGE, "pageToken": token}, timeout=60)
        answer.raise_for_status()
        page = answer.json()
        for zone in page.get("items", {}).values():
            yield from zone.get("machineTypes", [])
        token = page.get("nextPageToken", "")
        if not token:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description="Refresh the table of Compute Engine's machine types.")
    parser.add_argument("--project", help="the project that asks (default: the login's)")
    wanted = parser.parse_args().project
    login, own = google.auth.default(scopes=["https://www.googleapis.com/auth/compute.readonly"])
    project = wanted or own
    if not project:
        parser.error("the login names no project: give --project")
    count = write(
        rows(ask(AuthorizedSession(login), project)), "Compute Engine machineTypes.aggregatedList", DATA / "gcp.json"
    )
    print(f"{DATA / 'gcp.json'}: {count} types. Review the diff: types that leave the table leave the fleets.")


if __name__ == "__main__":
    main()
