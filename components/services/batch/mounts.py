"""Checks that the program which makes a queue grants and passes what the queue's mounts need."""

from collections.abc import Collection

from ...config import ConfigError, Queue
from ...config.checks.file_systems import check_file_systems
from ...config.errors import key_path, shown


def check_mounts(queue: str, settings: Queue, file_systems: Collection[str], *, reads_buckets: bool) -> None:
    """Refuse a queue whose machines could not mount something; they would power off.

    Args:
        file_systems: Names of the file systems that the queue is given.
        reads_buckets: Whether the machines' role may read the mounted buckets.

    Raises:
        ConfigError: a bucket or a file system cannot be mounted.
    """
    for mount, each in settings.mounts.items():
        here = ("queues", queue, "mounts", mount)
        if each.s3 and not reads_buckets:
            raise ConfigError(
                key_path([*here, "s3"]),
                shown(each.s3),
                "a bucket that the machines' role may read",
                "Let it (AwsIdentity.grant_data on instance_role) and set reads_mounts",
            )
    check_file_systems(queue, settings, file_systems)
