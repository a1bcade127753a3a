"""Services: how a queue's chunks reach machines. A folder here is a service, and its record says how it differs.

A cloud is where a pipeline is (`tidemill.clouds`); a service is how. Code that must know a difference asks the record,
never "which service?". A package outside this repository adds a service by an entry point of the group
`tidemill.services`, which names its record; docs/services.md tells what else belongs to one.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

from tidemill import clouds
from tidemill.rooms import Room, find_record

GROUP = "tidemill.services"
"""Of entry points, and the package whose folders are the services of this repository."""


@dataclass(frozen=True, kw_only=True)
class Service(Room):
    """The record of a service.

    Attributes:
        clouds: Where it is.
        whole_cpus: Whether items need whole CPUs.
        slots: Who decides how many items run side by side: the `job`, whose container asks for that many times the
            resources, or the `machine`, which runs as many as fit.
        overflow: Whether a later rung adds to the earlier ones; otherwise it opens when they have run dry.
        kept_back: Memory of a machine that no item gets: a percentage, and MiB on top.
        last_may_exceed: Whether the last machine of a rung may exceed the rung's CPUs.
        one_machine: Whether a rung is a single machine, whatever its CPUs.
        notice_seconds: How long before its end a Spot machine is told; None where none is taken back.
        tags_billed: Whether a job's tags are in the cloud's cost reports.
        reconciled: Whether a reconciler keeps the fleet, and reports on it in the job store.
        one_architecture: Whether all machines of a queue have the same one.
        array_chunks: Chunks that an array may have.
        most_dependencies: Arrays of other jobs that an array can wait for in the queue; 0 where the queue keeps none
            waiting.
        sees_children: Whether it knows what each child of an array is doing, and in which container.
    """

    clouds: frozenset[str]
    whole_cpus: bool = False
    slots: Literal["job", "machine"] = "job"
    overflow: bool = True
    kept_back: tuple[int, int] = (5, 256)
    last_may_exceed: bool = False
    one_machine: bool = False
    notice_seconds: float | None = None
    tags_billed: bool = False
    reconciled: bool = False
    one_architecture: bool = False
    array_chunks: int = 10_000
    most_dependencies: int = 0
    sees_children: bool = True


class Served(Protocol):
    """A queue of a descriptor or of a stack file."""

    @property
    def service(self) -> str | None:
        """The service that it names."""
        ...


_Queue = TypeVar("_Queue", bound=Served)


def find(name: str) -> Service | None:
    """The record of a service of this repository or of an installed package; None where there is none."""
    return find_record(GROUP, name, "SERVICE")


def of_queue(cloud: str, queue: Served | None) -> Service:
    """The service of a queue of a cloud.

    Raises:
        LookupError: There is no such cloud, or it has no such service.
    """
    if queue is None or queue.service is None:
        return of_cloud(cloud)
    service = find(queue.service)
    if not (service and cloud in service.clouds):
        raise LookupError(f"no service {queue.service!r}")
    return service


def by_service(cloud: str, queues: Mapping[str, _Queue]) -> dict[Service, dict[str, _Queue]]:
    """The queues of a cloud's pipeline by their services.

    Raises:
        LookupError: There is no such cloud, or no such service.
    """
    groups: dict[Service, dict[str, _Queue]] = {}
    for name, queue in queues.items():
        groups.setdefault(of_queue(cloud, queue), {})[name] = queue
    return groups


def in_cloud(cloud: str) -> list[Service]:
    """The services that a cloud has, those of installed packages included."""
    # Imported late: to look for packages takes a while.
    from importlib.metadata import entry_points

    folders = {each.name for each in pkgutil.iter_modules(__path__) if each.ispkg}
    names = folders.union(each.name for each in entry_points(group=GROUP))
    return [service for name in sorted(names) if (service := find(name)) and cloud in service.clouds]


def of_cloud(cloud: str) -> Service:
    """The service of a cloud's queues that name none.

    Raises:
        LookupError: There is no such cloud.
    """
    record = clouds.find(cloud)
    service = record and find(record.service)
    if not service:
        raise LookupError(f"no cloud {cloud!r}")
    return service
