"""The rooms of clouds and services: modules of fixed names, each imported when a stack asks for it.

A cloud is where a pipeline is (`components/<cloud>/`); a service is how its queues reach machines
(`components/services/<service>/`). Code outside the rooms asks a room, never "which cloud?". An SDK takes seconds to
load, and an environment for one cloud has no other: only a room's components import it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, get_args

from tidemill import services
from tidemill.services import Served, Service

CloudName = Literal["aws", "gcp"]
CLOUDS: tuple[CloudName, ...] = get_args(CloudName)
DEFAULT: CloudName = CLOUDS[0]
"""The cloud of a stack that names none."""


def cloud_room(cloud: str, name: str) -> Any:
    """A module of a cloud's room."""
    return import_module(f"{__package__}.{cloud}.{name}")


def service_room(service: Service, name: str) -> Any:
    """A module of a service's room, which a package outside this repository has in its folder `platform`."""
    if service.package == f"{services.GROUP}.{service.name}":
        return import_module(f"{__package__}.services.{service.name}.{name}")
    return service.part(f"platform.{name}")


def queue_room(cloud: str, queue: Served, name: str) -> Any:
    """A module of the room of the service that a queue of a cloud has."""
    return service_room(services.of_queue(cloud, queue), name)
