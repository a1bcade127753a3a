"""The machines of all compute environments, and what runs on them.

Machines start for waiting children, rung by rung in a queue's order, and end when they are idle.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from localcloud.aws.batch.catalog import Catalog
from localcloud.aws.batch.child import Run
from localcloud.aws.batch.core import Core, Json
from localcloud.aws.batch.environments import Environment
from localcloud.aws.batch.instance_types import InstanceType, Needs
from localcloud.aws.batch.jobs import Child
from localcloud.aws.batch.logs import LogShipper
from localcloud.aws.batch.machines import Machine
from localcloud.aws.batch.queues import Queue


class BatchFleet:
    """Machines and running children.

    Attributes:
        machines: Machines by instance id.
        runs: What runs, by child.
        placements: Every placement of a child on a machine, for tests.
    """

    def __init__(self, core: Core, environments: Catalog[Environment]) -> None:
        self._core, self._environments = core, environments
        self._logs = LogShipper(core)
        self.machines: dict[str, Machine] = {}
        self.runs: dict[Child, Run] = {}
        self.placements: list[Json] = []

    def reclaim(self, machine: Machine) -> None:
        """Give a Spot machine its notice, and take it away when the notice has run out."""
        machine.give_notice(self._core.settings.reclaim_seconds)
        self._core.after(self._core.settings.reclaim_seconds, lambda: self._take_away(machine))

    def retire(self, environment: Environment, minutes: float | None, done: Callable[[], None]) -> None:
        """Replace an environment's machines: no placements; running children get ``minutes`` (None: none at all)."""
        old = [machine for machine in self.machines.values() if machine.environment is environment]
        for machine in old:
            machine.retiring = True

        def force() -> None:
            for machine in old:
                self._take_away(machine)

        def check() -> None:
            if any(machine.id in self.machines for machine in old):
                self._core.after(0.1, check)
            else:
                done()

        if minutes is None:
            force()
        else:
            self._core.after(minutes * 60 * self._core.settings.time_scale, force)
        check()

    def close(self) -> None:
        """End every child and every machine."""
        for run in list(self.runs.values()):
            run.kill()
        stopping = [threading.Thread(target=machine.stop) for machine in self.machines.values()]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join(timeout=10)
        self._logs.close()

    # Children

    def room(self, queue: Queue, needs: Needs) -> Machine | None:
        for rung in queue.rungs:
            environment = self._environments[rung]
            ready = [
                machine
                for machine in self.machines.values()
                if machine.environment is environment and machine.accepts and needs.fits(machine.free)
            ]
            if ready and environment.detail["state"] == "ENABLED":
                return min(ready, key=lambda machine: (machine.free.cpus, machine.started))
        return None

    def start(self, child: Child, machine: Machine) -> None:
        """Start an attempt of a child on a machine."""
        run = self.runs[child] = Run(self._core, child, machine, self._logs)
        machine.add(child)
        self.placements.append({"child": child.id, "instance": machine.id, "doomed": machine.doomed, "at": time.time()})
        self._core.background(run.start)

    def remove(self, child: Child) -> None:
        """Free what an attempt that has ended used."""
        self.runs.pop(child).machine.remove(child)

    # Machines

    def keep_least(self) -> None:
        """Start machines where an environment has fewer vCPUs than its ``minvCpus``."""
        for environment in self._environments.values():
            missing = environment.resources["minvCpus"] - self.cpus_of(environment)
            if environment.placeable and missing > 0 and (kind := self._choose(environment, Needs(0, 0), missing)):
                self._boot(environment, kind)

    def spare(self, queue: Queue) -> list[list[Needs]]:
        """Return the room of each booting machine of a queue."""
        booting = [m for m in self.machines.values() if m.state == "booting" and m.environment.arn in queue.rungs]
        return [[machine.free] for machine in booting]

    def launch(self, queue: Queue, needs: Needs, cpus: int) -> list[Needs] | None:
        for rung in queue.rungs:
            environment = self._environments[rung]
            kind = self._choose(environment, needs, cpus) if environment.placeable else None
            if kind is not None:
                return self._boot(environment, kind)
        return None

    def _boot(self, environment: Environment, kind: InstanceType) -> list[Needs]:
        machine = Machine(self._core, environment, kind, random.choice(environment.resources["subnets"]))
        self.machines[machine.id] = machine
        self._core.background(machine.boot)
        return [kind.room]

    def _choose(self, environment: Environment, needs: Needs, cpus: int) -> InstanceType | None:
        """Return the smallest type for all waiting children, else the largest within ``maxvCpus``, else the smallest.

        The last one exceeds ``maxvCpus``, which every strategy but BEST_FIT may do by one machine:
        https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeResource.html
        """
        left = environment.resources["maxvCpus"] - self.cpus_of(environment)
        if needs.cpus > environment.resources["maxvCpus"]:
            return None
        fitting = [each for each in self.offered(environment) if needs.fits(each.room)]
        within = [each for each in fitting if each.room.cpus <= left]
        if within:
            return next((each for each in within if each.room.cpus >= cpus), within[-1])
        exceeds = environment.resources["allocationStrategy"] != "BEST_FIT"
        return fitting[0] if fitting and left > 0 and exceeds else None

    def offered(self, environment: Environment) -> list[InstanceType]:
        """The environment's types that EC2 has now."""
        gone = self._core.settings.stockout
        if environment.resources["type"] in gone:
            return []
        return [each for each in environment.types if each.name not in gone]

    def cpus_of(self, environment: Environment) -> int:
        return sum(each.type.room.cpus for each in self.machines.values() if each.environment is environment)

    def shrink(self) -> None:
        for machine in list(self.machines.values()):
            idle = not machine.children and machine.state != "booting"
            kept = (
                self.cpus_of(machine.environment) - machine.type.room.cpus < machine.environment.resources["minvCpus"]
            )
            old = time.monotonic() - machine.idle_since > self._core.settings.idle_seconds
            if idle and (machine.retiring or (old and not kept)):
                self._take_away(machine)

    def _take_away(self, machine: Machine) -> None:
        """End the machine: everything on it is killed without notice."""
        if self.machines.pop(machine.id, None):
            machine.gone = True
            for child in list(machine.children):
                self.runs[child].kill()
            self._core.background(machine.stop)
