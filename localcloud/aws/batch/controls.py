"""The controls with which tests and the demo steer the emulated Batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from localcloud.aws.batch.core import Core, Json
from localcloud.aws.batch.fleet import BatchFleet
from localcloud.aws.batch.jobs import ENDED, Job, known
from localcloud.aws.batch.machines import Machine


class BatchControls:
    def __init__(self, core: Core, fleet: BatchFleet, jobs: dict[str, Job]) -> None:
        self._core, self._fleet, self._jobs = core, fleet, jobs
        self.by_name: dict[str, Callable[[Json], Json]] = {
            "reclaim": lambda p: self._of_a_machine(p, fleet.reclaim),
            "rebalance": lambda p: self._of_a_machine(p, Machine.give_hint),
            "machines": self._machines,
            "children": self._children,
            "forget": self._forget,
            "settings": self._change_settings,
            "registry": lambda _: {"address": core.registry.address()},
            "placements": lambda _: {"placements": list(fleet.placements)},
        }

    def _of_a_machine(self, p: Json, do: Callable[[Machine], None]) -> Json:
        """Do something to a Spot machine without a notice: the one that is named, or the busiest."""
        with self._core.lock:
            wanted = p.get("instance")
            spot = [each for each in self._fleet.machines.values() if each.spot and not each.doomed]
            chosen = [each for each in spot if (each.id == wanted if wanted else each.children)]
            if wanted and not chosen:
                raise ValueError(f"there is no Spot machine {wanted} without a notice")
            if not chosen:
                return {"instance": None}
            machine = max(chosen, key=lambda each: len(each.children))
            do(machine)
            return {"instance": machine.id, "children": sorted(child.id for child in machine.children)}

    def _change_settings(self, p: Json) -> Json:
        with self._core.lock:
            self._core.settings = replace(self._core.settings, **p)
        return {}

    def _machines(self, _: Json) -> Json:
        with self._core.lock:
            return {
                "machines": [
                    {
                        "instance": each.id,
                        "type": each.type.name,
                        "market": "spot" if each.spot else "on_demand",
                        "environment": each.environment.detail["computeEnvironmentName"],
                        "state": each.state,
                        "doomed": each.doomed,
                        "children": sorted(child.id for child in each.children),
                        "config": each.config,
                    }
                    for each in self._fleet.machines.values()
                ]
            }

    def _children(self, _: Json) -> Json:
        with self._core.lock:
            every = [(child, self._fleet.runs.get(child)) for job in self._jobs.values() for child in job.children]
            return {
                "children": [
                    {"id": child.id, "name": child.job.name, "status": child.status, "attempts": len(child.attempts)}
                    | known(instance=run and run.machine.id, pid=run and run.pid)
                    for child, run in every
                ]
            }

    def _forget(self, _: Json) -> Json:
        with self._core.lock:
            finished = [identity for identity, job in self._jobs.items() if job.status in ENDED]
            for identity in finished:
                del self._jobs[identity]
            return {"forgotten": len(finished)}
