"""The rooms of clouds and services: modules of fixed names, each imported when a stack asks for it.

A cloud is where a pipeline is (`components/<cloud>/`); a service is how its queues reach machines
(`components/services/<service>/`). Code outside the rooms asks a room, never "which cloud?". An SDK takes seconds to
load, and an environment for one cloud has no other: only a room's components import it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, get_args

from tidemill import services

CloudName = Literal["aws", "gcp"]
CLOUDS: tuple[CloudName, ...] = get_args(CloudName)
DEFAULT: CloudName = CLOUDS[0]
"""The cloud of a stack that names none."""


def cloud_room(cloud: str, name: str) -> Any:
    """A module of a cloud's room."""
    return import_module(f"components.{cloud}.{name}")


def service_room(cloud: str, name: str) -> Any:
    """A module of the room of the service that the queues of a cloud have."""
    return import_module(f"components.services.{services.of_cloud(cloud).name}.{name}")
