"""Image references: which are allowed, and which lie in the stack's own registry."""

from __future__ import annotations

import re

from components.config.errors import ConfigError, key_path, shown
from components.config.models import StackConfig
from components.config.queue_models import Queue

_DIGEST = r"@sha256:[0-9a-f]{64}"
_NAME = r"[a-z0-9]+([._-][a-z0-9]+)*"
_DIGEST_END = re.compile(rf"{_DIGEST}$")
_OWN_IMAGE = re.compile(rf"registry://(?P<name>[a-z](-?[a-z0-9])*)(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}|{_DIGEST})")
_OTHER_IMAGE = re.compile(rf"[a-z0-9.-]+(:\d+)?/({_NAME}/)*{_NAME}(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?{_DIGEST}")


def repository_of(image: str) -> str | None:
    """The repository of the stack's registry that an image lies in, None for other registries."""
    found = _OWN_IMAGE.fullmatch(image)
    return found["name"] if found else None


def check_worker(config: StackConfig) -> None:
    """The worker's image is pinned by digest."""
    image = config.worker_image
    if image is None or (_DIGEST_END.search(image) and (_OWN_IMAGE.fullmatch(image) or _OTHER_IMAGE.fullmatch(image))):
        return
    raise ConfigError(
        key_path(["worker_image"]),
        shown(image),
        "registry://name@sha256:<64 hex digits> (the stack's registry) or host/name@sha256:<64 hex digits>",
        "`make worker PUSH=REGISTRY` prints it",
    )


def check_images(path: tuple[str, ...], queue: Queue) -> None:
    """A queue has a default image, and every image is one that cannot change under it."""
    if "default" not in queue.images:
        raise ConfigError(
            key_path([*path, "images"]),
            f"images {', '.join(queue.images)} without default",
            "a mapping that has the name default",
            "Name the image that jobs get when they ask for none: default",
        )
    for name, image in queue.images.items():
        if not _OWN_IMAGE.fullmatch(image) and not _OTHER_IMAGE.fullmatch(image):
            raise ConfigError(
                key_path([*path, "images", name]),
                shown(image),
                "registry://name:tag, registry://name@sha256:<64 hex digits> (the stack's registry), or "
                "host/name@sha256:<64 hex digits>",
                "Pin the image: `crane digest <image>` or `docker buildx imagetools inspect <image>` prints its digest",
            )
