"""Refresh ``components/machines_gcp.json`` from Compute Engine: ``python -m components.gcp.refresh_machines``.

Needs a Google login (application default credentials) with ``compute.machineTypes.list`` on a project and nothing else;
costs nothing. A type that is in one zone of the world is listed. Bare-metal, shared-core and ``-lssd`` types are left
out, and which GPUs can be attached to an n1 machine is no property of the type: those rows are ours.
Sources: https://cloud.google.com/compute/docs/reference/rest/v1/machineTypes/aggregatedList and
https://cloud.google.com/compute/docs/gpus#t4-gpus
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import google.auth
from google.auth.transport.requests import AuthorizedSession

from components.machines import GCP_TABLE, MachineType, write

FAMILIES = ("c3", "c3d", "e2", "g2", "n1", "n2", "n2d")
T4 = "nvidia-tesla-t4"
MOST_CPUS_OF_A_T4 = 32
"""One T4 supports up to 48 vCPUs, and n1 has no size between 32 and 64."""

_PREDEFINED = re.compile(r"(?P<family>[a-z0-9]+)-(standard|highcpu|highmem)-\d+")
_PAGE = 500


def rows(described: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Table rows from ``machineTypes`` resources, by family and size, each type once for all zones.

    Returns:
        One dict per type: ``type``, ``cpus`` (vCPUs), ``memory_mib``, ``gpus``, ``architecture``, and ``attach`` where
        the GPUs are attached by the template.
    """
    found: dict[str, MachineType] = {}
    for entry in described:
        name = _PREDEFINED.fullmatch(entry["name"])
        if name is None or name["family"] not in FAMILIES or entry.get("isSharedCpu") or entry.get("deprecated"):
            continue
        gpus = sum(gpu["guestAcceleratorCount"] for gpu in entry.get("accelerators", []))
        architecture = "arm64" if entry.get("architecture") == "ARM64" else "x86_64"
        machine = MachineType(entry["name"], entry["guestCpus"], entry["memoryMb"], gpus, architecture)
        found[machine.type] = machine
        if machine.type.startswith(("n1-standard-", "n1-highmem-")) and machine.cpus <= MOST_CPUS_OF_A_T4:
            attached = MachineType(machine.type, machine.cpus, machine.memory_mib, 1, architecture, T4)
            found[f"{machine.type}+{T4}"] = attached
    ordered = sorted(found.values(), key=lambda m: (m.family, m.cpus, m.memory_mib, m.type))
    return [{key: value for key, value in vars(machine).items() if value is not None} for machine in ordered]


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
    """Ask Compute Engine and rewrite the table in place."""
    parser = argparse.ArgumentParser(description="Refresh components/machines_gcp.json from Compute Engine.")
    parser.add_argument("--project", help="the project that asks (default: the login's)")
    wanted = parser.parse_args().project
    login, own = google.auth.default(scopes=["https://www.googleapis.com/auth/compute.readonly"])
    project = wanted or own
    if not project:
        parser.error("the login names no project: give --project")
    count = write(rows(ask(AuthorizedSession(login), project)), "Compute Engine machineTypes.aggregatedList", GCP_TABLE)
    print(f"{GCP_TABLE}: {count} types. Review the diff: types that leave the table leave the fleets.")


if __name__ == "__main__":
    main()
