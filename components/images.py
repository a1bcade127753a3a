"""Image references of a stack's config: which lie in the stack's own registry, and what to pull."""

from __future__ import annotations

import re

import pulumi

from components.config import StackConfig, repository_of

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.(?P<suffix>amazonaws\.com(\.cn)?)/(?P<name>[^@:]+)"
)


def resolve(reference: str, registry_url: pulumi.Input[str]) -> pulumi.Input[str]:
    """What a machine pulls: ``registry://name:tag`` becomes ``<registry url>/name:tag``, others stay."""
    if repository_of(reference) is None:
        return reference
    return pulumi.Output.concat(registry_url, "/", reference.removeprefix("registry://"))


def _named(config: StackConfig) -> list[str]:
    """Every image that machines of the stack pull."""
    images = [image for queue in config.queues.values() for image in queue.images.values()]
    return [*images, config.worker_image] if config.worker_image else images


def own_repositories(config: StackConfig) -> list[str]:
    """Repositories of the stack's registry: those declared, and those that images name."""
    named = [repository_of(image) for image in _named(config)]
    return sorted({*config.registry.repositories, *(name for name in named if name)})


def external_repositories(config: StackConfig) -> list[str]:
    """ARNs of ECR repositories that images come from beside the stack's registry."""
    found = [match for image in _named(config) if (match := _ECR.match(image))]
    return sorted({_arn(match) for match in found})


def _arn(found: re.Match[str]) -> str:
    partition = "aws-cn" if found["suffix"].endswith(".cn") else "aws-us-gov" if "-gov-" in found["region"] else "aws"
    return f"arn:{partition}:ecr:{found['region']}:{found['account']}:repository/{found['name']}"
