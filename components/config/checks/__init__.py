"""Rules of a stack's config that need more than one key, or that only one cloud has. Each raises `ConfigError`."""

from components.config.checks.common import check_stack
from components.config.checks.images import repository_of, shared_repository_of
from components.config.checks.waivers import check_waivers
from components.config.models import StackConfig
from components.rooms import cloud_room, service_room

__all__ = ["check", "repository_of", "shared_repository_of"]


def check(config: StackConfig) -> None:
    """Raise a `ConfigError` for the first rule that a config violates.

    Keys of the other cloud come first: they often explain the rest.
    """
    cloud_room(config.cloud, "checks").check_stack(config)
    check_stack(config)
    check_waivers(config)
    for name, queue in config.queues.items():
        service_room(config.cloud, "checks").check_queue(config, ("queues", name), queue)
