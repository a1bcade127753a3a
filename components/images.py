"""Image references of a stack's config: their registries, and the references to pull."""

from __future__ import annotations

import re

import pulumi

from components.config import StackConfig, repository_of, shared_repository_of

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.(?P<suffix>amazonaws\.com(\.cn)?)/(?P<name>[^@:]+)"
)


def resolve(
    reference: str, registry_url: pulumi.Input[str], shared_url: pulumi.Input[str] | None = None
) -> pulumi.Input[str]:
    """What a machine pulls: ``registry://name:tag`` becomes ``<registry url>/name:tag``, others stay.

    Args:
        shared_url: the shared registry, for ``shared://`` images.
    """
    if repository_of(reference) is not None:
        return pulumi.Output.concat(registry_url, "/", reference.removeprefix("registry://"))
    if shared_repository_of(reference) is not None and shared_url is not None:
        return pulumi.Output.concat(shared_url, "/", reference.removeprefix("shared://"))
    return reference


def _named(config: StackConfig) -> list[str]:
    """All images that machines of the stack pull."""
    images = [image for queue in config.queues.values() for image in queue.images.values()]
    return [*images, *config.worker_images.values()]


def own_repositories(config: StackConfig) -> list[str]:
    """Repositories of the stack's registry: those declared, and those that images name."""
    named = [repository_of(image) for image in _named(config)]
    return sorted({*config.registry.repositories, *(name for name in named if name)})


def shared_repositories(config: StackConfig) -> list[str]:
    """Repositories of the shared registry that images name."""
    named = [shared_repository_of(image) for image in _named(config)]
    return sorted({name for name in named if name})


def external_repositories(config: StackConfig) -> list[str]:
    """ARNs of the images' ECR repositories outside the stack's registry."""
    return sorted({arn for image in _named(config) if (arn := ecr_repository(image))})


def ecr_repository(image: str) -> str | None:
    """ARN of the ECR repository that a full reference names, None for another registry's."""
    found = _ECR.match(image)
    return _arn(found) if found else None


def _arn(found: re.Match[str]) -> str:
    partition = "aws-cn" if found["suffix"].endswith(".cn") else "aws-us-gov" if "-gov-" in found["region"] else "aws"
    return f"arn:{partition}:ecr:{found['region']}:{found['account']}:repository/{found['name']}"
