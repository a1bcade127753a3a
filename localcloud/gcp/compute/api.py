"""Compute's plug-in in the daemon: the calls on instance groups and autoscalers."""

from __future__ import annotations

import re
from typing import ClassVar

from localcloud.gcp.compute.autoscaler import left_out as left_out_of_autoscaler
from localcloud.gcp.compute.controls import ComputeControls
from localcloud.gcp.compute.group import Group
from localcloud.gcp.compute.groups import Groups
from localcloud.gcp.compute.managed import URL, Json, Timing, listed
from localcloud.gcp.compute.refused import left_out as left_out_of_group
from localcloud.gcp.compute.refused import wrong_update_policy
from localcloud.gcp.compute.vm_host import REGISTRIES, VmHost
from localcloud.gcp.site import Plugin, Site
from localcloud.gcp.wire import Request, Response, RestError
from localcloud.machines import namespaces
from localcloud.machines.images import Registry

INSTANCE = re.compile(r"(?:.*/)?zones/([^/]+)/instances/([^/]+)")
PAGE = 500
ZONES = 3
"""Zones of a group that names none."""


class Compute(Plugin):
    apis = ("compute",)
    options: ClassVar = {
        "boot_seconds": (20.0, "from the room that was found to RUNNING, on the cloud's clock"),
        "retry_seconds": (60.0, "between two tries to create a machine, on the cloud's clock"),
        "spot_off_seconds": (30.0, "from soft off to off for Spot, on the cloud's clock"),
        "standard_off_seconds": (120.0, "from soft off to off for the rest, on the cloud's clock"),
        "namespaces": (True, "false runs machines as plain processes even where namespaces would work"),
    }

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        given = site.options
        host = self._host = VmHost(
            site.state / "compute", site.clock, site.port, self._serve, Registry(site.state / "images", REGISTRIES),
            site.policy.allows, site.tokens.issue,
        )  # fmt: skip
        host.refused = namespaces.refusal(host.state) if given.namespaces else namespaces.OFF
        self.registry = host.registry
        timing = Timing(given.boot_seconds, given.retry_seconds, given.spot_off_seconds, given.standard_off_seconds)
        self._groups = Groups(site, host, timing)
        self.controls = ComputeControls(self._groups, site.clock.now).by_name

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
            self._groups.reload()
        except RestError:
            self._site.resources.put(name, before) if before else self._site.resources.delete(name)
            self._groups.reload()
            raise
        if kind == "regionInstanceGroupManagers" and verb != "delete":
            with self._groups.changing():
                self._groups.groups[name].resize(int(body.get("targetSize", self._groups.groups[name].target)))
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
        if name not in self._groups.groups:
            raise RestError(404, f"The resource '{name.partition('/')[2]}' was not found.")
        return name, self._groups.groups[name]

    def _described(self, request: Request, kind: str, answer: Json) -> Response:
        add = self._summary if kind == "regionInstanceGroupManagers" else self._scaling
        with self._groups.lock:
            for value in answer.get("items", [answer] if "name" in answer else []):
                name = value["selfLink"].partition("/compute/v1/")[2]
                value.update(add(f"compute/{name}"))
        return Response.of(answer)

    def _summary(self, name: str) -> Json:
        link = f"https://www.googleapis.com/compute/v1/{name.removeprefix('compute/')}"
        group = self._groups.groups[name].summary()
        return {**group, "instanceGroup": link.replace("/instanceGroupManagers/", "/instanceGroups/")}

    def _scaling(self, name: str) -> Json:
        scaler = self._groups.autoscalers[name]
        known = {} if scaler.recommended is None else {"recommendedSize": scaler.recommended}
        return {"status": "ACTIVE", "statusDetails": scaler.status(), **known}

    def _do_listManagedInstances(self, request: Request, name: str, group: Group) -> Response:  # noqa: N802
        """Answer in pages only where the group says PAGINATED."""
        if request.call.params.get("filter"):
            raise RestError(501, "localcloud does not emulate the filter of listManagedInstances")
        with self._groups.lock:
            found = [listed(vm, self._site.project) for vm in group.instances()]
        if self._groups.fields[name].get("listManagedInstancesResults") != "PAGINATED":
            return Response.of({"managedInstances": found})
        begin = int(request.call.params.get("pageToken") or 0)
        end = begin + int(request.call.params.get("maxResults") or PAGE)
        more = {"nextPageToken": str(end)} if end < len(found) else {}
        return Response.of({"managedInstances": found[begin:end], **more})

    def _do_listErrors(self, request: Request, name: str, group: Group) -> Response:  # noqa: N802
        with self._groups.lock:
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
        with self._groups.changing():
            group.delete_instances(names, self._site.clock.now(), bool(body.get("skipInstancesOnValidationError")))
        return self._site.finished(request, "deleteInstances")

    def _do_resize(self, request: Request, name: str, group: Group) -> Response:
        with self._groups.changing():
            group.resize(int(request.call.params["size"]))
        return self._site.finished(request, "resize")

    @staticmethod
    def _names(group: Group, links: list[str]) -> list[str]:
        """Names of instances. An invalid link, or one outside the group's zones, always fails the call."""
        found = [INSTANCE.fullmatch(link) for link in links]
        wrong = [
            link for link, match in zip(links, found, strict=True) if not match or match[1] not in group.fields.zones
        ]
        if wrong:
            raise RestError(400, f"Invalid value for field 'instances': {wrong[0]!r}", field="instances")
        return [match[2] for match in found if match]

    def health(self) -> Json:
        """The health report of this part."""
        with self._groups.lock:
            every = list(self._groups.vms())
        problems = {vm.name: made.problem for _, vm, made in every if made and made.problem}
        vms = sum(made is not None for _, _, made in every)
        return {"vms": vms, "vm_problems": problems, "namespaces": self._host.refused or True}

    def stop(self) -> None:
        self._groups.stop()
        self._host.registry.close()
        self._host.pool.shutdown(wait=False, cancel_futures=True)
