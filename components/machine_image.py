"""The error of a machine image that does not fit, worded alike for both clouds."""

from __future__ import annotations

from components.config import ConfigError, Queue
from components.config.errors import key_path, shown


def unfit(queue: str, settings: Queue, allowed: str, fix: str) -> ConfigError:
    """The error of a queue whose machines cannot start from its `machines.image`."""
    return ConfigError(key_path(["queues", queue, "machines", "image"]), shown(settings.machines.image), allowed, fix)
