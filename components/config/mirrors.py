"""A stack's config with its images in the mirrors of their registries."""

from .mirror_models import mirrored
from .models import StackConfig
from .queue_models import Queue


def in_mirrors(config: StackConfig) -> StackConfig:
    """A config whose images, the worker's included, are those that machines pull. Images of stacks have no mirror."""
    if not config.mirrors:
        return config
    workers = {key: mirrored(config.mirrors, image) for key, image in config.worker_images.items()}
    queues = {name: _queue(config.mirrors, queue) for name, queue in config.queues.items()}
    return config.model_copy(update={**workers, "queues": queues})


def _queue(mirrors: dict[str, str], queue: Queue) -> Queue:
    update: dict[str, object] = {"images": {name: mirrored(mirrors, image) for name, image in queue.images.items()}}
    if queue.gcp.fuse_image:
        update["gcp"] = queue.gcp.model_copy(update={"fuse_image": mirrored(mirrors, queue.gcp.fuse_image)})
    return queue.model_copy(update=update)
