"""Checks that a queue which is used alone was passed the file systems that it mounts."""

from __future__ import annotations

from collections.abc import Collection

from components.config.errors import ConfigError, key_path, shown
from components.config.queue_models import Queue


def check_file_systems(queue: str, settings: Queue, given: Collection[str]) -> None:
    """Refuse a queue that mounts a file system which its program does not pass.

    Args:
        given: Names of the file systems that the queue is given.

    Raises:
        ConfigError: one is missing.
    """
    for mount, chosen in settings.mounts.items():
        if chosen.file_system and chosen.file_system not in given:
            raise ConfigError(
                key_path(["queues", queue, "mounts", mount, "file_system"]),
                shown(chosen.file_system),
                f"the argument file_systems: {', '.join(given) or 'it is empty'}",
                "Pass the `source` of an AwsFileSystem or a GcpFileSystem under this name",
            )
