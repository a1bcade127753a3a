"""The active parts of Compute in the daemon: instance groups, autoscalers, their VMs, and the controls of all three."""

from __future__ import annotations

import random
import re
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from localcloud.gcp.compute.autoscaler import Autoscaler
from localcloud.gcp.compute.autoscaler import left_out as left_out_of_autoscaler
from localcloud.gcp.compute.capacity import QUOTA, STOCKOUT, Capacity, Limit
from localcloud.gcp.compute.fleet import Fleet
from localcloud.gcp.compute.group import Group, GroupError
from localcloud.gcp.compute.managed import URL, Managed, Timing, listed
from localcloud.gcp.compute.refused import left_out as left_out_of_group
from localcloud.gcp.compute.refused import wrong_scheduling, wrong_update_policy
from localcloud.gcp.compute.vm import REGISTRIES, Vm, VmHost
from localcloud.gcp.wire import Request, Response, RestError
from localcloud.machines import namespaces
from localcloud.machines.images import Registry

if TYPE_CHECKING:
    from localcloud.gcp.serve import Site

Json = dict[str, Any]
INSTANCE = re.compile(r"(?:.*/)?zones/([^/]+)/instances/([^/]+)")
LOOK_SECONDS = 0.2
FRESH_SECONDS = 300.0
"""A metric whose newest visible sample is older than that is missing."""
PAGE = 500
ZONES = 3
"""Zones of a group that names none."""


class Compute:
    """The plug-in."""

    apis = ("compute",)
    options: ClassVar = {
        "boot_seconds": (20.0, "from the room that was found to RUNNING, on the cloud's clock"),
        "retry_seconds": (60.0, "between two tries to create a machine, on the cloud's clock"),
        "spot_off_seconds": (30.0, "from soft off to off for Spot, on the cloud's clock"),
        "standard_off_seconds": (120.0, "from soft off to off for the rest, on the cloud's clock"),
        "namespaces": (True, "false runs machines as plain processes even where namespaces would work"),
    }

    def __init__(self, site: Site) -> None:
        self._site, given = site, site.options
        self.timing = Timing(
            given.boot_seconds, given.retry_seconds, given.spot_off_seconds, given.standard_off_seconds
        )
        self.capacity = Capacity()
        self.host = VmHost(
            site.state / "compute", site.clock, site.port, self._serve, Registry(site.state / "images", REGISTRIES),
            site.policy.allows, site.tokens.issue,
        )  # fmt: skip
        self.host.refused = namespaces.refusal(self.host.state) if given.namespaces else namespaces.OFF
        self.groups: dict[str, Group] = {}
        self.fleets: dict[str, Fleet] = {}
        self.autoscalers: dict[str, Autoscaler] = {}
        self._fields: dict[str, Json] = {}
        self._templates: dict[str, Json] = {}
        self._lock, self._wake, self._stopped = threading.RLock(), threading.Event(), False
        self.controls: dict[str, Callable[[Json], Any]] = {
            "compute/list": lambda _: self._list(),
            "compute/preempt": self._preempt,
            "compute/stockout": self._limit,
            "compute/health": self._health_of_all,
            "compute/kill": self._kill,
            "compute/settings": self._settings,
            "compute/registry": lambda _: {"address": self.host.registry.address()},
        }
        self._thread = threading.Thread(target=self._run, name="compute", daemon=True)
        self._thread.start()

    def _serve(self, request: Request) -> Response:
        """Answer a request from a VM: it reaches the APIs, but not localcloud's controls."""
        if request.api == "_localcloud":
            raise RestError(404, "there is no such service")
        return self._site.handle(request)

    # The API

    def handle(self, request: Request) -> Response | None:
        """Answer the active parts; the generic server answers the rest."""
        kind, verb = request.call.id.split(".")[1:3]
        if kind not in ("regionInstanceGroupManagers", "regionAutoscalers"):
            return None
        if verb in ("insert", "patch", "update", "delete"):
            return self._change(request, kind, verb)
        if verb in ("get", "list"):
            return self._described(request, kind, self._site.default(request).json())
        action = getattr(self, f"_do_{verb}", None)
        return action(request, *self._group(request)) if action and kind == "regionInstanceGroupManagers" else None

    def _change(self, request: Request, kind: str, verb: str) -> Response:
        body = request.call.body or {}
        if verb != "delete":
            self._refuse(kind, body, verb)
        name = self._site.full_name("compute", request.call.name)
        name += f"/{body['name']}" if verb == "insert" and "name" in body else ""
        before = self._site.resources.get(name)
        answer = self._site.default(request)
        try:
            self._reload()
        except RestError:
            self._site.resources.put(name, before) if before else self._site.resources.delete(name)
            self._reload()
            raise
        if kind == "regionInstanceGroupManagers" and verb != "delete":
            with self._changing():
                self.groups[name].resize(int(body.get("targetSize", self.groups[name].target)))
        return answer

    @staticmethod
    def _refuse(kind: str, body: Json, verb: str) -> None:
        if kind == "regionInstanceGroupManagers":
            names, field = left_out_of_group(body), ""
            zones = body.get("distributionPolicy", {}).get("zones", [])
            if wrong := wrong_update_policy(body, len(zones) or ZONES):
                raise RestError(400, f"Invalid value for field 'resource.updatePolicy': {wrong}", field="updatePolicy")
        else:
            policy, field = body.get("autoscalingPolicy", {}), "autoscalingPolicy"
            names = left_out_of_autoscaler(policy) if verb != "patch" or "customMetricUtilizations" in policy else ""
        if names:
            raise RestError(501, f"localcloud does not emulate {names} of {kind}", field=field)

    def _group(self, request: Request) -> tuple[str, Group]:
        name = self._site.full_name("compute", request.call.name)
        if name not in self.groups:
            raise RestError(404, f"The resource '{name.partition('/')[2]}' was not found.")
        return name, self.groups[name]

    def _described(self, request: Request, kind: str, answer: Json) -> Response:
        add = self._summary if kind == "regionInstanceGroupManagers" else self._scaling
        with self._lock:
            for value in answer.get("items", [answer] if "name" in answer else []):
                name = value["selfLink"].partition("/compute/v1/")[2]
                value.update(add(f"compute/{name}"))
        return Response.of(answer)

    def _summary(self, name: str) -> Json:
        link = f"https://www.googleapis.com/compute/v1/{name.removeprefix('compute/')}"
        group = self.groups[name].summary()
        return {**group, "instanceGroup": link.replace("/instanceGroupManagers/", "/instanceGroups/")}

    def _scaling(self, name: str) -> Json:
        scaler = self.autoscalers[name]
        known = {} if scaler.recommended is None else {"recommendedSize": scaler.recommended}
        return {"status": "ACTIVE", "statusDetails": scaler.status(), **known}

    def _do_listManagedInstances(self, request: Request, name: str, group: Group) -> Response:  # noqa: N802
        """Answer in pages only where the group says PAGINATED."""
        if request.call.params.get("filter"):
            raise RestError(501, "localcloud does not emulate the filter of listManagedInstances")
        with self._lock:
            found = [listed(vm, self._site.project) for vm in group.instances()]
        if self._fields[name].get("listManagedInstancesResults") != "PAGINATED":
            return Response.of({"managedInstances": found})
        begin = int(request.call.params.get("pageToken") or 0)
        end = begin + int(request.call.params.get("maxResults") or PAGE)
        more = {"nextPageToken": str(end)} if end < len(found) else {}
        return Response.of({"managedInstances": found[begin:end], **more})

    def _do_listErrors(self, request: Request, name: str, group: Group) -> Response:  # noqa: N802
        with self._lock:
            found = [dict(each) for each in group.errors]
        for each in found:
            details = each["instanceActionDetails"]
            vm = group.get(details["instance"])
            zone = vm.zone if vm else "-"
            each["instanceActionDetails"] = {
                "action": details["action"],
                "instance": f"{URL}/{self._site.project}/zones/{zone}/instances/{details['instance']}",
                "version": {"instanceTemplate": details["version"]},
            }
        size = int(request.call.params.get("maxResults") or PAGE)
        return Response.of({"items": found[::-1][:size]} if found else {})

    def _do_deleteInstances(self, request: Request, name: str, group: Group) -> Response:  # noqa: N802
        body = request.call.body or {}
        names = self._names(group, body.get("instances", []))
        with self._changing():
            group.delete_instances(names, self._site.clock.now(), bool(body.get("skipInstancesOnValidationError")))
        return self._site.finished(request, "deleteInstances")

    def _do_resize(self, request: Request, name: str, group: Group) -> Response:
        with self._changing():
            group.resize(int(request.call.params["size"]))
        return self._site.finished(request, "resize")

    @staticmethod
    def _names(group: Group, links: list[str]) -> list[str]:
        """Names of instances. An invalid link, or one outside the group's zones, always fails the call."""
        found = [INSTANCE.fullmatch(link) for link in links]
        wrong = [link for link, match in zip(links, found, strict=True) if not match or match[1] not in group.zones]
        if wrong:
            raise RestError(400, f"Invalid value for field 'instances': {wrong[0]!r}", field="instances")
        return [match[2] for match in found if match]

    # Groups and autoscalers, as the resources describe them

    def _reload(self) -> None:
        with self._changing():
            at = f"compute/projects/{self._site.project}/regions/-"
            groups = dict(self._site.resources.list(f"{at}/instanceGroupManagers"))
            for name in set(self.groups) - set(groups):
                self.groups.pop(name).clear()
            self._fields = dict(groups)
            for name, fields in groups.items():
                for version in fields.get("versions") or [fields]:
                    self._template(version.get("instanceTemplate", ""))
                if name not in self.groups:
                    self._new_group(name)
            scalers = dict(self._site.resources.list(f"{at}/autoscalers"))
            for name in set(self.autoscalers) - set(scalers):
                del self.autoscalers[name]
            self._fields |= scalers
            for name in set(scalers) - set(self.autoscalers):
                self._new_autoscaler(name)

    def _new_group(self, name: str) -> None:
        fleet = self.fleets[name] = Fleet(self._site, self.host, lambda vm: self._off(name, vm))
        self.groups[name] = Group(
            lambda: self._fields[name], self._template, self.capacity, fleet, timing=self.timing
        )  # fmt: skip

    def _new_autoscaler(self, name: str) -> None:
        target = f"compute/{self._fields[name]['target'].partition('/compute/v1/')[2]}"
        if target not in self.groups:
            raise RestError(400, f"The target {target} of the autoscaler does not exist", field="target")
        policy: Callable[[], Json] = lambda: self._fields[name]["autoscalingPolicy"]  # noqa: E731
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
        monitoring = next((each for each in self._site.plugins if hasattr(each, "newest")), None)
        if monitoring is None or "resource.type" not in spec.get("filter", ""):
            return None
        found = monitoring.newest(spec["metric"], spec["filter"], now)
        return found[1] if found and now - found[0] <= FRESH_SECONDS else None

    # Time

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Change a group and wake the clock's thread to look at it."""
        try:
            with self._lock:
                yield
        except GroupError as error:
            raise RestError(400, str(error)) from None
        finally:
            self._wake.set()

    def _off(self, group: str, vm: str) -> None:
        with self._changing():
            if group in self.groups:
                self.groups[group].off(vm, self._site.clock.now())

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            with self._lock:
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

    # Controls

    def _all(self) -> Iterator[tuple[str, Managed, Vm | None]]:
        for name, group in self.groups.items():
            for vm in group.instances():
                yield name, vm, self.fleets[name].vms.get(vm.name)

    def _list(self) -> Json:
        """Every managed instance, with its containers' process ids."""
        with self._lock:
            found = [
                {
                    "group": name.rpartition("/")[2], "name": vm.name, "zone": vm.zone, "type": vm.machine_type,
                    "spot": vm.spot, "status": vm.status, "action": vm.action, "preempted": vm.preempted,
                    "problem": made.problem if made else "", "errors": [code for code, _ in vm.errors],
                    "journal": str(self.host.state / "journals" / f"{vm.name}.log"),
                    "containers": {key: each.process.pid for key, each in list(made.docker.containers.items())
                                   if each.process and each.process.poll() is None} if made else {},
                }
                for name, vm, made in self._all()
            ]  # fmt: skip
            sizes = {name.rpartition("/")[2]: group.target for name, group in self.groups.items()}
        return {"instances": found, "targets": sizes}

    def _preempt(self, wanted: Json) -> Json:
        """Reclaim a Spot VM: `{"instance": name}`, or any running one."""
        with self._changing():
            running = [
                (name, vm) for name, vm, _ in self._all() if vm.spot and vm.status == "RUNNING" and not vm.terminating
            ]
            chosen = [each for each in running if wanted.get("instance") in (None, each[1].name)]
            if not chosen:
                raise RestError(400, f"no running Spot machine {wanted.get('instance') or ''}")
            name, vm = random.choice(chosen)
            self.groups[name].preempt(vm.name, self._site.clock.now())
        return {"instance": vm.name}

    def _limit(self, wanted: Json) -> Json:
        """Allow at most `limit` machines (null: no limit) of a `market` (spot, standard), `zone` or family; `code` is
        what Compute answers beyond it."""
        markets = {"spot": True, "standard": False, None: None}
        with self._changing():
            self.capacity.limits = []
            if wanted.get("limit") is not None:
                code = wanted.get("code") or (QUOTA if wanted.get("quota") else STOCKOUT)
                self.capacity.limits = [Limit(
                    int(wanted["limit"]), code, markets[wanted.get("market")],
                    wanted.get("zone", ""), wanted.get("machine_type", ""),
                )]  # fmt: skip
        return {"limits": len(self.capacity.limits)}

    def _health_of_all(self, wanted: Json) -> Json:
        """Let autoscalers see their instances as healthy or not: `{"healthy": false}`."""
        with self._lock:
            for scaler in self.autoscalers.values():
                scaler.healthy = bool(wanted["healthy"])
        return {"autoscalers": len(self.autoscalers)}

    def _kill(self, wanted: Json) -> Json:
        """Send SIGKILL to the containers of a VM: `{"instance": name}`."""
        with self._lock:
            made = next((made for _, vm, made in self._all() if vm.name == wanted["instance"]), None)
        running = list(made.docker.containers.items()) if made else []
        killed = [name for name, each in running if each.process and each.process.poll() is None]
        for name, each in running:
            if name in killed and each.process:
                each.process.kill()
        return {"killed": killed}

    def _settings(self, wanted: Json) -> Json:
        """Change `boot`, `retry`, `spot_off`, `standard_off` (seconds), or the `environment` of future containers."""
        for name, value in wanted.items():
            if name == "environment":
                self.host.settings = {str(key): str(each) for key, each in value.items()}
            elif name in vars(self.timing):
                setattr(self.timing, name, float(value))
            else:
                raise ValueError(f"no setting {name!r}: environment, {', '.join(vars(self.timing))}")
        return {**vars(self.timing), "environment": self.host.settings}

    def health(self) -> Json:
        """The health report of this part."""
        with self._lock:
            problems = {vm.name: made.problem for _, vm, made in self._all() if made and made.problem}
        return {"vms": sum(len(fleet.vms) for fleet in self.fleets.values()), "vm_problems": problems,
                "namespaces": self.host.refused or True}  # fmt: skip

    def stop(self) -> None:
        """End every VM."""
        self._stopped = True
        self._wake.set()
        self._thread.join(2)
        with self._lock:
            for group in self.groups.values():
                group.clear()
        for fleet in self.fleets.values():
            fleet.join(5)
        self.host.registry.close()
        self.host.pool.shutdown(wait=False, cancel_futures=True)
