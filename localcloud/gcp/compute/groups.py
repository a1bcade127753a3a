"""The instance groups and autoscalers of the project, as its resources describe them, and the clock that moves them."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from localcloud.gcp.compute.autoscaler import Autoscaler
from localcloud.gcp.compute.capacity import Capacity
from localcloud.gcp.compute.fleet import VmFleet
from localcloud.gcp.compute.group import Group, GroupError
from localcloud.gcp.compute.managed import Json, Managed, Timing
from localcloud.gcp.compute.refused import wrong_scheduling
from localcloud.gcp.compute.vm import Vm
from localcloud.gcp.compute.vm_host import VmHost
from localcloud.gcp.monitoring import Monitoring
from localcloud.gcp.site import Site
from localcloud.gcp.wire import RestError

LOOK_SECONDS = 0.2
FRESH_SECONDS = 300.0
"""A metric whose newest visible sample is older than that is missing."""


class Groups:
    """Groups, their VMs and their autoscalers, by the full names of the resources.

    Attributes:
        fields: What the resources say.
        lock: Held by every reader; `changing` holds it, too.
    """

    def __init__(self, site: Site, host: VmHost, timing: Timing) -> None:
        self._site, self.host, self.timing = site, host, timing
        self.capacity = Capacity()
        self.groups: dict[str, Group] = {}
        self.fleets: dict[str, VmFleet] = {}
        self.autoscalers: dict[str, Autoscaler] = {}
        self.fields: dict[str, Json] = {}
        self._templates: dict[str, Json] = {}
        self.lock, self._wake, self._stopped = threading.RLock(), threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="compute", daemon=True)
        self._thread.start()

    def reload(self) -> None:
        """Follow the resources."""
        with self.changing():
            at = f"compute/projects/{self._site.project}/regions/-"
            groups = dict(self._site.resources.list(f"{at}/instanceGroupManagers"))
            for name in set(self.groups) - set(groups):
                self.groups.pop(name).clear()
            self.fields = dict(groups)
            for name, fields in groups.items():
                for version in fields.get("versions") or [fields]:
                    self._template(version.get("instanceTemplate", ""))
                if name not in self.groups:
                    self._new_group(name)
            scalers = dict(self._site.resources.list(f"{at}/autoscalers"))
            for name in set(self.autoscalers) - set(scalers):
                del self.autoscalers[name]
            self.fields |= scalers
            for name in set(scalers) - set(self.autoscalers):
                self._new_autoscaler(name)

    def _new_group(self, name: str) -> None:
        fleet = self.fleets[name] = VmFleet(self._site, self.host, lambda vm: self._off(name, vm))
        self.groups[name] = Group(
            lambda: self.fields[name], self._template, self.capacity, fleet, timing=self.timing
        )  # fmt: skip

    def _new_autoscaler(self, name: str) -> None:
        target = f"compute/{self.fields[name]['target'].partition('/compute/v1/')[2]}"
        if target not in self.groups:
            raise RestError(400, f"The target {target} of the autoscaler does not exist", field="target")
        policy: Callable[[], Json] = lambda: self.fields[name]["autoscalingPolicy"]  # noqa: E731
        self.autoscalers[name] = Autoscaler(policy, self.groups[target], self._metric)

    def _template(self, url: str) -> Json:
        if url not in self._templates:
            found = self._site.resources.get(f"compute/{url.partition('/compute/v1/')[2]}")
            if found is None:
                raise GroupError(f"The resource '{url}' was not found: no such instance template")
            if wrong := wrong_scheduling(found["properties"]):
                raise GroupError(wrong)
            self._templates[url] = found["properties"]
        return self._templates[url]

    def _metric(self, spec: Json, now: float) -> float | None:
        if "resource.type" not in spec.get("filter", ""):
            return None
        found = self._site.plugin(Monitoring).newest(spec["metric"], spec["filter"], now)
        return found[1] if found and now - found[0] <= FRESH_SECONDS else None

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change a group and wake the clock's thread to look at it."""
        try:
            with self.lock:
                yield
        except GroupError as error:
            raise RestError(400, str(error)) from None
        finally:
            self._wake.set()

    def _off(self, group: str, vm: str) -> None:
        with self.changing():
            if group in self.groups:
                self.groups[group].off(vm, self._site.clock.now())

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            with self.lock:
                now = self._site.clock.now()
                for machine in [*self.autoscalers.values(), *self.groups.values()]:
                    self._tick(machine, now)
                next_at = min(
                    (each.next_at() for each in [*self.autoscalers.values(), *self.groups.values()]), default=now
                )
            self._wake.wait(min(max(self._site.clock.real(next_at - now), 0.01), LOOK_SECONDS))

    @staticmethod
    def _tick(machine: Autoscaler | Group, now: float) -> None:
        try:
            if machine.next_at() <= now:
                machine.tick(now)
        except Exception:
            traceback.print_exc()

    def vms(self) -> Iterator[tuple[str, Managed, Vm | None]]:
        """Yield every managed instance with its group's name and its VM."""
        for name, group in self.groups.items():
            for vm in group.instances():
                yield name, vm, self.fleets[name].vms.get(vm.name)

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        self._thread.join(2)
        with self.lock:
            for group in self.groups.values():
                group.clear()
        for fleet in self.fleets.values():
            fleet.join(5)
