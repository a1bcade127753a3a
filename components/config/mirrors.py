"""A stack's config with its images in the mirrors of their registries."""

from .errors import ConfigError, key_path, shown
from .mirror_models import HUB, HUBS, mirrored
from .models import StackConfig
from .queue_models import Queue


def in_mirrors(config: StackConfig) -> StackConfig:
    """A config whose images, the worker's included, are those that machines pull. Images of stacks have no mirror."""
    if not config.mirrors:
        return config
    _check(config.mirrors)
    workers = {key: mirrored(config.mirrors, image) for key, image in config.worker_images.items()}
    queues = {name: _queue(config, queue) for name, queue in config.queues.items()}
    return config.model_copy(update={**workers, "queues": queues})


def _check(mirrors: dict[str, str]) -> None:
    """Mirrors must be of registries by their one name, and have no mirror themselves."""
    for host, mirror in mirrors.items():
        if host in HUBS[1:]:
            allowed = f"{HUB} instead of {host}"
            raise ConfigError(key_path(["mirrors", host]), shown(mirror), allowed, f"Name {HUB}: it stands for both")
        if mirror.partition("/")[0] in {*mirrors, *(HUBS if HUB in mirrors else ())}:
            raise ConfigError(
                key_path(["mirrors", host]),
                shown(mirror),
                "a registry that has no mirror itself",
                "Name the registry that machines are to pull from",
            )


def _queue(config: StackConfig, queue: Queue) -> Queue:
    images = {name: mirrored(config.mirrors, image) for name, image in queue.images.items()}
    update: dict[str, object] = {"images": images}
    section = getattr(queue, config.cloud)
    if fuse_image := getattr(section, "fuse_image", None):
        update[config.cloud] = section.model_copy(update={"fuse_image": mirrored(config.mirrors, fuse_image)})
    return queue.model_copy(update=update)
