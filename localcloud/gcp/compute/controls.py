"""The controls with which tests and the demo steer the emulated Compute."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from localcloud.gcp.compute.capacity import QUOTA, STOCKOUT, Limit
from localcloud.gcp.compute.groups import Groups
from localcloud.gcp.compute.managed import Json
from localcloud.gcp.wire import RestError


class ComputeControls:
    def __init__(self, groups: Groups, now: Callable[[], float]) -> None:
        self._groups, self._now = groups, now
        self.by_name: dict[str, Callable[[Json], Any]] = {
            "compute/list": lambda _: self._list(),
            "compute/preempt": self._preempt,
            "compute/stockout": self._limit,
            "compute/kill": self._kill,
            "compute/settings": self._settings,
            "compute/registry": lambda _: {"address": groups.host.registry.address()},
        }

    def _list(self) -> Json:
        """Every managed instance, with its containers' process ids."""
        with self._groups.lock:
            found = [
                {
                    "group": name.rpartition("/")[2], "name": vm.name, "zone": vm.zone, "type": vm.machine_type,
                    "spot": vm.spot, "status": vm.status, "action": vm.action, "preempted": vm.preempted,
                    "problem": made.problem if made else "", "errors": [code for code, _ in vm.errors],
                    "journal": str(self._groups.host.state / "journals" / f"{vm.name}.log"),
                    "containers": {key: each.process.pid for key, each in list(made.docker.containers.items())
                                   if each.process and each.process.poll() is None} if made else {},
                }
                for name, vm, made in self._groups.vms()
            ]  # fmt: skip
            sizes = {name.rpartition("/")[2]: group.target for name, group in self._groups.groups.items()}
        return {"instances": found, "targets": sizes}

    def _preempt(self, wanted: Json) -> Json:
        """Reclaim a Spot VM: `{"instance": name}`, or any running one."""
        with self._groups.changing():
            running = [
                (name, vm)
                for name, vm, _ in self._groups.vms()
                if vm.spot and vm.status == "RUNNING" and not vm.terminating
            ]
            chosen = [each for each in running if wanted.get("instance") in (None, each[1].name)]
            if not chosen:
                raise RestError(400, f"no running Spot machine {wanted.get('instance') or ''}")
            name, vm = random.choice(chosen)
            self._groups.groups[name].preempt(vm.name, self._now())
        return {"instance": vm.name}

    def _limit(self, wanted: Json) -> Json:
        """Allow at most `limit` machines (null: no limit) of a `market` (spot, standard), `zone` or family; `code` is
        what Compute answers beyond it."""
        markets = {"spot": True, "standard": False, None: None}
        with self._groups.changing():
            self._groups.capacity.limits = []
            if wanted.get("limit") is not None:
                code = wanted.get("code") or (QUOTA if wanted.get("quota") else STOCKOUT)
                self._groups.capacity.limits = [Limit(
                    int(wanted["limit"]), code, markets[wanted.get("market")],
                    wanted.get("zone", ""), wanted.get("machine_type", ""),
                )]  # fmt: skip
        return {"limits": len(self._groups.capacity.limits)}

    def _kill(self, wanted: Json) -> Json:
        """Send SIGKILL to the containers of a VM: `{"instance": name}`."""
        with self._groups.lock:
            made = next((made for _, vm, made in self._groups.vms() if vm.name == wanted["instance"]), None)
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
                self._groups.host.settings = {str(key): str(each) for key, each in value.items()}
            elif name in vars(self._groups.timing):
                setattr(self._groups.timing, name, float(value))
            else:
                raise ValueError(f"no setting {name!r}: environment, {', '.join(vars(self._groups.timing))}")
        return {**vars(self._groups.timing), "environment": self._groups.host.settings}
