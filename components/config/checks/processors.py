"""Rules of a queue on GCP whose machines have both processors."""

from __future__ import annotations

from components.config.checks.common import Path
from components.config.errors import ConfigError, key_path, shown
from components.config.models import StackConfig
from components.config.queue_models import Queue


def check_both(config: StackConfig, path: Path, queue: Queue) -> None:
    """Of both processors, machines need an image each, and either all bring the worker or none does."""
    if len(queue.architectures(config.cloud)) < 2:
        return
    here = [*path, "machines"]
    if queue.machines.image:
        raise ConfigError(
            key_path([*here, "image"]),
            shown(queue.machines.image),
            f"nothing for families of both processors ({', '.join(queue.machines.families)}): an image is for one",
            "Make a queue for each processor",
        )
    if len(config.worker_images) == 1:
        raise ConfigError(
            key_path([*here, "families"]),
            shown(queue.machines.families),
            "families of one processor, or worker_image and worker_image_arm64 together; only "
            f"{next(iter(config.worker_images))} is set",
            "`make worker` makes the one for x86_64, `make worker ARCH=arm64` that for arm64",
        )
