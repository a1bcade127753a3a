"""A stack's config with its images in the mirrors of their registries."""

from .checks.images import OTHER_IMAGE
from .errors import ConfigError, key_path, shown
from .models import StackConfig
from .queue_models import Queue
from .registry_models import mirrored, one_name


def in_mirrors(config: StackConfig) -> StackConfig:
    """A config whose images, the worker's included, are those that machines pull. Images of stacks have no mirror."""
    if not config.mirrors:
        return config
    _check(config.mirrors)
    workers = {key: mirrored(config.mirrors, image) for key, image in config.worker_images.items()}
    queues = {name: _queue(config, queue) for name, queue in config.queues.items()}
    return config.model_copy(update={**workers, "queues": queues})


def _check(mirrors: dict[str, str]) -> None:
    """Registries must be called by their one name, on both sides, and a mirror must have none itself."""
    for host, mirror in mirrors.items():
        for registry in (host, mirror.partition("/")[0]):
            if (name := one_name(registry)) != registry:
                allowed, fix = f"{name} instead of {registry}", f"Name {name}: it stands for both"
                raise ConfigError(key_path(["mirrors", host]), shown(mirror), allowed, fix)
        if mirror.partition("/")[0] in mirrors:
            raise ConfigError(
                key_path(["mirrors", host]),
                shown(mirror),
                "a registry that has no mirror itself",
                "Name the registry that machines are to pull from",
            )


def _queue(config: StackConfig, queue: Queue) -> Queue:
    # `python@sha256:…` stays, to be refused as without a mirror: an image of a queue names its registry.
    images = {
        name: mirrored(config.mirrors, image) if OTHER_IMAGE.fullmatch(image) else image
        for name, image in queue.images.items()
    }
    update: dict[str, object] = {"images": images}
    section = getattr(queue, config.cloud)
    if fuse_image := getattr(section, "fuse_image", None):
        update[config.cloud] = section.model_copy(update={"fuse_image": mirrored(config.mirrors, fuse_image)})
    return queue.model_copy(update=update)
