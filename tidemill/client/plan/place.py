"""Where a job will run: queue, image and machines, checked before anything is created."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tidemill import capacity, services
from tidemill.client.health.queue_request import may_be_added, owner_of
from tidemill.descriptor import LEAST_MEMORY_MIB, Descriptor, Queue, Resources
from tidemill.errors import CallerError
from tidemill.figures import counted
from tidemill.request import JobRequest
from tidemill.services import Service


@dataclass(frozen=True)
class Placement:
    """A queue of the pipeline, one of its images, and what an item gets there."""

    queue_name: str
    queue: Queue
    image: str
    resources: Resources
    slots: int

    @property
    def fleet_slots(self) -> int:
        """Items that the whole fleet can run at the same time."""
        return max(1, int(sum(rung.max_cpus for rung in self.queue.capacity) / self.resources.cpus))


def find_place(descriptor: Descriptor, request: JobRequest) -> Placement:
    """Queue, image and resources of a job.

    Raises:
        CallerError: No such queue or image, or no machine of the queue can run the container.
    """
    image, slots = request.image, request.slots
    name = choose_queue(descriptor, request.queue)
    settings = _in_market(name, descriptor.queues[name], request.market)
    if image not in settings.images:
        raise CallerError.unknown("image", image, f"queue {name!r}", settings.images)
    if slots < 1:
        raise CallerError.about("slots", slots, "at least 1", "State how many items run side by side in one container.")
    service = services.of_queue(descriptor.cloud, settings)
    if service.slots == "machine":
        slots = 1
    needs = {"cpus": request.cpus, "memory_mib": request.memory_mib, "gpus": request.gpus}
    resources = _resources(name, settings, needs, service)
    _check_fit(service, name, settings, resources, slots)
    if request.memory_max_mib is not None:
        _check_memory_max(service, name, settings, resources, request.memory_max_mib)
    return Placement(name, settings, image, resources, slots)


def _in_market(name: str, queue: Queue, market: str | None) -> Queue:
    if market is None:
        return queue
    allowed = [each.replace("_", "-") for each in queue.markets]
    if market not in ("spot", "on-demand"):
        raise CallerError.about("market", market, "spot or on-demand", "Correct it, or leave it out.")
    if market not in allowed:
        owner = f"Leave it out, or ask the stack's owner to list it under tidemill:queues.{name}.per_job.markets."
        raise CallerError.about(
            "market", market, f"a market that queue {name!r} allows: {', '.join(allowed) or 'none'}", owner
        )
    return queue.of_market("spot" if market == "spot" else "on_demand")


def choose_queue(descriptor: Descriptor, queue: str | None) -> str:
    """The queue that a caller names, or the only one.

    Raises:
        CallerError: There is no such queue, or none is named and there are several.
    """
    if queue is None:
        if len(descriptor.queues) != 1:
            names = ", ".join(sorted(descriptor.queues))
            raise CallerError(f"queue is not given; this pipeline has: {names}.", "Choose one.", what="queue")
        return next(iter(descriptor.queues))
    if queue not in descriptor.queues:
        raise _no_queue(descriptor, queue)
    return queue


def _no_queue(descriptor: Descriptor, queue: str) -> CallerError:
    """The error of an unknown queue: the one that may be meant, or else who can add it, and the keys that do."""
    error = CallerError.unknown("queue", queue, "this pipeline", descriptor.queues)
    images = [each.images["default"].ref for each in descriptor.queues.values() if "default" in each.images]
    if not error.fix and images and may_be_added(queue):
        error.fix = (
            f"Take one of these, or ask {owner_of(descriptor)} to add one to the stack file of "
            f"{descriptor.team} {descriptor.environment}: `tidemill:queues: {{{queue}: {{images: {{default: "
            f'"{images[0]}"}}}}}}`; `tidemill queues request {queue}` writes the change.'
        )
    return error


def _resources(name: str, queue: Queue, needs: Mapping[str, float | int | None], service: Service) -> Resources:
    for key, value in needs.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            fix = "Give 2048 for 2 GiB." if key == "memory_mib" else "Leave it out for the queue's own."
            raise CallerError.about(key, value, f"a number{' of MiB' * (key == 'memory_mib')}", fix)
    cpus, memory, gpus = (needs.get(key) for key in ("cpus", "memory_mib", "gpus"))
    if cpus is not None and (not math.isfinite(cpus) or cpus <= 0):
        raise CallerError.about("cpus", cpus, "more than 0", f"Leave it out for the queue's {queue.item.cpus:g}.")
    if memory is not None and memory < LEAST_MEMORY_MIB:
        advice = f"Leave it out for the queue's {queue.item.memory_mib}."
        raise CallerError.about("memory_mib", memory, f"at least {LEAST_MEMORY_MIB} MiB", advice)
    if gpus is not None and gpus < 0:
        raise CallerError.about("gpus", gpus, "at least 0", "0 means none.")
    resources = Resources(
        cpus=queue.item.cpus if cpus is None else cpus,
        memory_mib=queue.item.memory_mib if memory is None else int(memory),
        gpus=queue.item.gpus if gpus is None else int(gpus),
    )
    if service.whole_cpus and resources.cpus != int(resources.cpus):
        advice = f"Use {math.ceil(resources.cpus)}, or run several items per container with `slots`."
        raise CallerError.about("cpus", resources.cpus, f"a whole number on {service.title}", advice)
    if resources.gpus and not any(machine.gpus for machine in queue.machines):
        advice = "Leave it out, or choose a queue whose machines have GPUs (`tidemill queues`)."
        raise CallerError(
            f"gpus is {resources.gpus}, but queue {name!r} has no machine with a GPU.", advice, what="gpus"
        )
    return resources


def _check_memory_max(service: Service, name: str, queue: Queue, item: Resources, most_mib: float) -> None:
    if service.one_machine:
        fix = "Leave it out here; `memory_mib` is an item's limit."
        raise CallerError("memory_max_mib is given, and the items run on this machine.", fix, what="memory_max_mib")
    if most_mib < item.memory_mib:
        allowed, fix = f"at least `memory_mib`, {item.memory_mib}", "Give more, or leave it out."
        raise CallerError.about("memory_max_mib", most_mib, allowed, fix)
    check_memory("memory_max_mib", service, queue, item.model_copy(update={"memory_mib": int(most_mib)}))


def check_memory(key: str, service: Service, queue: Queue, item: Resources) -> None:
    """Refuse more memory of an item than a machine of the queue has, or too little.

    Raises:
        CallerError: It says so.
    """
    least = f"at least {LEAST_MEMORY_MIB} MiB"
    if item.memory_mib < LEAST_MEMORY_MIB:
        raise CallerError.about(key, item.memory_mib, least, "Give more.")
    if queue.machines and not any(capacity.slots(service, machine, item) for machine in queue.machines):
        allowed = f"{least} and no more than a machine of the queue has{_largest(service, queue)}"
        raise CallerError.about(key, item.memory_mib, allowed, "Give less, or choose another queue.")


def _check_fit(service: Service, name: str, queue: Queue, item: Resources, slots: int) -> None:
    cpus, memory, gpus = item.cpus * slots, item.memory_mib * slots, item.gpus * slots
    container = "an item" if slots == 1 else f"a container of {slots} slots"
    given = f"{cpus:g} CPU{'s' * (cpus != 1)}, {memory} MiB" + (f", {counted(gpus, 'GPU')}" if gpus else "")
    fitting = [machine for machine in queue.machines if capacity.slots(service, machine, item, slots)]
    if not fitting:
        raise CallerError(
            f"cpus, memory_mib and gpus: {container} needs {given}; no machine of queue {name!r} is large enough"
            f"{_largest(service, queue)}.",
            "Ask for less, or choose another queue.",
            what="resources",
        )
    most = max((rung.max_cpus for rung in queue.capacity), default=0)
    smallest = min(machine.cpus for machine in fitting)
    if smallest > most:
        raise CallerError(
            f"cpus: {container} needs {given}, so a machine of {smallest} CPUs; queue {name!r} may start {most} CPUs "
            "(max_cpus).",
            "Ask for less, or ask the stack's owner to raise max_cpus.",
            what="resources",
        )


def _largest(service: Service, queue: Queue) -> str:
    if not queue.machines:
        return ""
    machine = max(queue.machines, key=lambda m: (m.gpus, m.memory_mib, m.cpus))
    usable = capacity.usable_memory_mib(service, machine)
    return f" (the largest, {machine.type}: {machine.cpus} CPUs, {usable} MiB for items)"
