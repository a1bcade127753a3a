"""Image references of a stack's config: their registries, and the references to pull."""

import pulumi

from .config import StackConfig, repository_of, shared_repository_of
from .config.errors import nearest


def resolve(
    reference: str, registry_url: pulumi.Input[str], shared_url: pulumi.Input[str] | None = None
) -> pulumi.Input[str]:
    """The reference that a machine pulls: ``registry://name:tag`` becomes ``<registry url>/name:tag``, others stay.

    Args:
        shared_url: the shared registry, for ``shared://`` images.
    """
    if repository_of(reference) is not None:
        return pulumi.Output.concat(registry_url, "/", reference.removeprefix("registry://"))
    if shared_repository_of(reference) is not None and shared_url is not None:
        return pulumi.Output.concat(shared_url, "/", reference.removeprefix("shared://"))
    return reference


def named_images(config: StackConfig) -> list[str]:
    """All images that machines of the stack pull."""
    images = [image for queue in config.queues.values() for image in queue.images.values()]
    return [*images, *config.worker_images.values()]


def unused_mirror(config: StackConfig, host: str) -> str | None:
    """Why a mirror of a registry has no effect on a stack, as a sentence; None if an image lies in it."""
    mirror = config.mirrors[host]
    sections = (getattr(queue, config.cloud) for queue in config.queues.values())
    fuse_images = (getattr(section, "fuse_image", None) or "" for section in sections)
    images = [*named_images(config), *fuse_images]
    if any(image.startswith(f"{mirror}/") for image in images):
        return None
    guess = nearest(host, {image.partition("/")[0] for image in images if "@" in image and "://" not in image})
    meant = f"Did you mean {guess}?" if guess else "Correct the host, or leave the mirror out."
    return f"no image of this stack is in {host}, so that nothing is pulled from {mirror}. {meant}"


def own_repositories(config: StackConfig) -> list[str]:
    """Repositories of the stack's registry: those declared, and those that images name."""
    named = [repository_of(image) for image in named_images(config)]
    return sorted({*config.registry.repositories, *(name for name in named if name)})


def shared_repositories(config: StackConfig) -> list[str]:
    """Repositories of the shared registry that images name."""
    named = [shared_repository_of(image) for image in named_images(config)]
    return sorted({name for name in named if name})
