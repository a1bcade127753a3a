"""Defaults that differ between clouds, set before a config is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GCP_FAMILIES = ("n2", "n2d", "c3d")
GCP_SIZE = 16


def fill(values: Mapping[str, Any]) -> dict[str, Any]:
    """A stack's keys with the defaults of its cloud. The models refuse values of a wrong type later."""
    filled = dict(values)
    queues = filled.get("queues")
    if filled.get("cloud") == "gcp" and isinstance(queues, Mapping):
        filled["queues"] = {name: fill_gcp_queue(queue) for name, queue in queues.items()}
    return filled


def fill_gcp_queue(queue: Any) -> Any:
    """A queue's keys with the default machines of a queue on GCP."""
    if not isinstance(queue, Mapping):
        return queue
    machines = queue.get("machines", {})
    if not isinstance(machines, Mapping):
        return queue
    return {**queue, "machines": {"families": list(GCP_FAMILIES), "cpus": GCP_SIZE, **machines}}
