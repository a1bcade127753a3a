"""Rules of a stack's config that need more than one key, or that only one cloud has. Each raises `ConfigError`."""

from tidemill import services

from ...rooms import cloud_room, queue_room
from ..errors import ConfigError, key_path, shown
from ..models import StackConfig
from .common import check_stack
from .images import repository_of, shared_repository_of
from .schedules import check_schedules
from .tags import check_tags
from .waivers import check_waivers

__all__ = ["check", "repository_of", "shared_repository_of"]


def check(config: StackConfig) -> None:
    """Raise a `ConfigError` for the first rule that a config violates.

    Keys of the other cloud come first: they often explain the rest.
    """
    _check_services(config)
    cloud_room(config.cloud, "checks").check_stack(config)
    check_stack(config)
    check_tags(config)
    check_schedules(config)
    check_waivers(config)
    for name, queue in config.queues.items():
        queue_room(config.cloud, queue, "checks").check_queue(config, ("queues", name), queue)


def _check_services(config: StackConfig) -> None:
    """Every queue's service must be one that the stack's cloud has."""
    for name, queue in config.queues.items():
        service = queue.service and services.find(queue.service)
        if queue.service and not (service and config.cloud in service.clouds):
            names = ", ".join(each.name for each in services.in_cloud(config.cloud))
            raise ConfigError(
                key_path(["queues", name, "service"]),
                shown(queue.service),
                f"services of {config.cloud.upper()}: {names}",
                "Take one of these, or install the package that has it",
            )
