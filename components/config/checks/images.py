"""Image references: which are allowed, and which are in the stack's own registry or a shared one."""

import re

from ..errors import ConfigError, key_path, shown
from ..models import StackConfig
from ..queue_models import Queue

_DIGEST = r"@sha256:[0-9a-f]{64}"
_NAME = r"[a-z0-9]+([._-][a-z0-9]+)*"
_DIGEST_END = re.compile(rf"{_DIGEST}$")
STACKS_IMAGE = re.compile(rf"(registry|shared)://([a-z](-?[a-z0-9])*)(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}}|{_DIGEST})")
"""An image of the stack's registry or a shared one: the registry and the repository. The editors' schema has it too."""
OTHER_IMAGE = re.compile(rf"[a-z0-9.-]+(:\d+)?/({_NAME}/)*{_NAME}(:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?{_DIGEST}")
"""Any other image, by digest."""


def repository_of(image: str) -> str | None:
    """An image's repository in the stack's registry; None for other registries."""
    return _repository("registry", image)


def shared_repository_of(image: str) -> str | None:
    """An image's repository in the shared registry; None for other registries."""
    return _repository("shared", image)


def _repository(where: str, image: str) -> str | None:
    match = STACKS_IMAGE.fullmatch(image)
    return match[2] if match and match[1] == where else None


def check_worker(config: StackConfig) -> None:
    for key, image in config.worker_images.items():
        _check_worker(config, key, image)


def _check_worker(config: StackConfig, key: str, image: str) -> None:
    if not _DIGEST_END.search(image) or not (STACKS_IMAGE.fullmatch(image) or OTHER_IMAGE.fullmatch(image)):
        raise ConfigError(
            key_path([key]),
            shown(image),
            "registry://name@sha256:<64 hex digits> (the stack's registry), the same with shared:// (a shared one), or "
            "host/name@sha256:<64 hex digits>",
            "`make worker PUSH=REGISTRY` prints it",
        )
    _check_shared(config, (key,), image)


def check_images(config: StackConfig, path: tuple[str, ...], queue: Queue) -> None:
    """A queue must have a default image, and every image must be immutable."""
    if "default" not in queue.images:
        raise ConfigError(
            key_path([*path, "images"]),
            f"images {', '.join(queue.images)} without default",
            "a mapping that has the name default",
            "Name the image that jobs get when they ask for none: default",
        )
    for name, image in queue.images.items():
        if not STACKS_IMAGE.fullmatch(image) and not OTHER_IMAGE.fullmatch(image):
            raise ConfigError(
                key_path([*path, "images", name]),
                shown(image),
                "registry://name:tag, registry://name@sha256:<64 hex digits> (the stack's registry), the same with "
                "shared:// (a shared one), or host/name@sha256:<64 hex digits>",
                "Pin the image: `crane digest <image>` or `docker buildx imagetools inspect <image>` prints its digest",
            )
        if image.endswith(":latest"):
            raise ConfigError(
                key_path([*path, "images", name]),
                shown(image),
                "a tag that stays with one image, such as 1.4.1, or a digest",
                "Tags of the registry are immutable, so that latest could be pushed once and never again",
            )
        _check_shared(config, (*path, "images", name), image)


def _check_shared(config: StackConfig, path: tuple[str, ...], image: str) -> None:
    if shared_repository_of(image) is not None and config.registry.shared is None:
        raise ConfigError(
            key_path(path),
            shown(image),
            "shared:// only where tidemill:registry names a shared stack",
            "Set tidemill:registry: {shared: organization/tidemill-shared/prod}, or push the image to registry://",
        )
