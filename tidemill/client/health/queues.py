"""The queues of a pipeline with their states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidemill.client.site import Site
from tidemill.descriptor import SERVICE_KEYS, Queue
from tidemill.figures import counted
from tidemill.services.backend import QueueState


@dataclass(frozen=True)
class QueueInfo:
    """A queue as `tidemill queues` shows it."""

    name: str
    queue: Queue
    state: QueueState

    @property
    def item(self) -> str:
        item = self.queue.item
        gpus = f", {item.gpus} GPU" if item.gpus else ""
        return f"{item.cpus:g} CPU, {item.memory_mib} MiB{gpus}"

    @property
    def machines(self) -> str:
        """Types and sizes in short: `12 types, 8 to 32 CPUs, x86_64`."""
        sizes = sorted(machine.cpus for machine in self.queue.machines)
        if not sizes:
            return "none"
        span = f"{sizes[0]} CPUs" if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]} CPUs"
        return f"{counted(len(sizes), 'type')}, {span}, {self.queue.architecture}"

    @property
    def capacity(self) -> str:
        """Markets and their limits. Of this machine, its CPUs: the limit of its only rung counts chunks."""
        if not self.queue.block:
            return f"{self.queue.machines[0].cpus} CPUs"
        return self.queue.ladder

    @property
    def images(self) -> list[str]:
        return sorted(self.queue.images)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "accepting": self.state.accepting,
            "running": self.state.running,
            "state": self.state.detail,
            **self.queue.model_dump(mode="json", exclude={*SERVICE_KEYS}),
        }


def read_queues(site: Site) -> list[QueueInfo]:
    """Every queue with its state, in the order of their names."""
    states = site.queue_states()
    return [QueueInfo(name, queue, states[name]) for name, queue in sorted(site.descriptor.queues.items())]
