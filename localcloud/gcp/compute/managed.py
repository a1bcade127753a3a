"""A managed instance: the group's intention, the VM that fulfils it, and the hypervisor that runs VMs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from localcloud.gcp.compute.capacity import Room

Json = dict[str, Any]
URL = "https://www.googleapis.com/compute/v1/projects"
NEVER = float("inf")


@dataclass
class Timing:
    """Durations of the cloud's own actions, in seconds.

    Attributes:
        boot: From finding room to RUNNING.
        retry: Between two attempts to create a VM.
        spot_off: From soft off to off for Spot; ``standard_off`` for all other VMs.
    """

    boot: float = 20
    retry: float = 60
    spot_off: float = 30
    standard_off: float = 120


@dataclass(eq=False)
class Managed:
    """One managed instance: an intention, and the VM that fulfils it when there is one.

    Attributes:
        template: URL of the template that it is, or is to be, created from; ``properties`` are that template's.
        status: Of the VM, empty when there is none.
        action: ``currentAction``.
        errors: (code, message) of the last try to create it.
        preempted: Spot has asked for it back.
        since: When the VM was created.
    """

    name: str
    zone: str
    template: str
    properties: Json = field(default_factory=dict)
    machine_type: str = ""
    id: int = 0
    status: str = ""
    action: str = "CREATING"
    errors: list[tuple[str, str]] = field(default_factory=list)
    preempted: bool = False
    since: float = 0.0
    terminating: bool = False
    due: float = NEVER
    tied: bool = False

    @property
    def spot(self) -> bool:
        scheduling = self.properties.get("scheduling", {})
        return scheduling.get("provisioningModel") == "SPOT" or bool(scheduling.get("preemptible"))

    @property
    def room(self) -> Room:
        return Room(self.zone, self.machine_type, self.spot)

    @property
    def leaving(self) -> bool:
        return self.action == "DELETING"

    @property
    def settled(self) -> bool:
        return self.action == "NONE" and self.status == "RUNNING" and not self.terminating


class Hypervisor(Protocol):
    """Runs the VMs: as processes on this machine, or as a simulation."""

    def boot(self, vm: Managed) -> None:
        """Start the guest of a VM that is RUNNING."""

    def preempt(self, vm: Managed) -> None:
        """Notify the guest; the soft off follows."""

    def shut_down(self, vm: Managed, seconds: float) -> None:
        """Soft off: the guest has this many seconds. If it is off earlier, it calls ``Group.off``."""

    def discard(self, vm: Managed) -> None:
        """End everything left of it, at once."""


def listed(vm: Managed, project: str) -> Json:
    """A managed instance in the form that listManagedInstances returns."""
    answer: Json = {
        "name": vm.name,
        "instance": f"{URL}/{project}/zones/{vm.zone}/instances/{vm.name}",
        "currentAction": vm.action,
        "targetStatus": "DELETED" if vm.leaving else "RUNNING",
        "version": {"instanceTemplate": "" if vm.leaving else vm.template},
    }
    if vm.status:
        answer |= {"id": str(vm.id), "instanceStatus": vm.status}
    if vm.machine_type:
        answer["propertiesFromFlexibilityPolicy"] = {"machineType": vm.machine_type}
    if vm.errors:
        answer["lastAttempt"] = {"errors": {"errors": [{"code": code, "message": text} for code, text in vm.errors]}}
    return answer


def seconds_of(duration: Json | None) -> float:
    """Seconds of a Duration of the Compute API."""
    return int(duration.get("seconds", 0)) + int(duration.get("nanos", 0)) / 1e9 if duration else 0.0


def stamp(now: float) -> str:
    """RFC 3339, as the Compute API writes it."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
