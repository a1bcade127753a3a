"""The VMs of a group as processes: the hypervisor of a group in the emulated cloud."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from localcloud.gcp.compute.managed import Managed
from localcloud.gcp.compute.vm import Vm
from localcloud.gcp.compute.vm_host import VmHost
from localcloud.gcp.site import Site

Json = dict[str, Any]


class VmFleet:
    """The VMs of one group.

    Args:
        off: Called with the name of a VM that has powered itself off.
    """

    def __init__(self, site: Site, host: VmHost, off: Callable[[str], None]) -> None:
        self._site, self._host, self._off = site, host, off
        self._closing: list[threading.Thread] = []
        self.vms: dict[str, Vm] = {}

    def boot(self, vm: Managed) -> None:
        """Start its processes; their boot continues in a thread of its own."""
        items = vm.properties.get("metadata", {}).get("items", [])
        attributes = {each["key"]: each.get("value", "") for each in items}
        user_data = attributes.get("user-data", "")
        made = Vm(self._host, vm.name, self._facts(vm, attributes), user_data, lambda: self._off(vm.name))
        self.vms[vm.name] = made
        threading.Thread(target=made.boot, name=vm.name, daemon=True).start()

    def preempt(self, vm: Managed) -> None:
        self.vms[vm.name].notice()

    def shut_down(self, vm: Managed, seconds: float) -> None:
        self.vms[vm.name].shut_down(self._host.clock.real(seconds))

    def discard(self, vm: Managed) -> None:
        """End its processes now, and remove the rest soon."""
        made = self.vms.pop(vm.name, None)
        if made:
            made.kill()
            thread = threading.Thread(target=made.close, daemon=True)
            thread.start()
            self._closing = [each for each in self._closing if each.is_alive()] + [thread]

    def join(self, seconds: float) -> None:
        """Wait until all discarded VMs are gone."""
        for thread in self._closing:
            thread.join(seconds)

    def _facts(self, vm: Managed, attributes: dict[str, str]) -> Json:
        """The metadata of a VM: https://cloud.google.com/compute/docs/metadata/predefined-metadata-keys"""
        accounts = vm.properties.get("serviceAccounts", [])
        described = [{"email": each["email"], "scopes": "".join(f"{scope}\n" for scope in each.get("scopes", [])),
                      "aliases": "default"} for each in accounts[:1]]  # fmt: skip
        project, number = self._site.project, self._site.number
        return {
            "instance": {
                "id": str(vm.id),
                "name": vm.name,
                "hostname": f"{vm.name}.{vm.zone}.c.{project}.internal",
                "zone": f"projects/{number}/zones/{vm.zone}",
                "machine-type": f"projects/{number}/machineTypes/{vm.machine_type}",
                "attributes": attributes,
                "scheduling": {"preemptible": str(vm.spot).upper(), "automatic-restart": "FALSE",
                               "on-host-maintenance": "TERMINATE"},
                "service-accounts": {key: each for each in described for key in ("default", each["email"])},
            },
            "project": {"project-id": project, "numeric-project-id": str(number), "attributes": {}},
        }  # fmt: skip
