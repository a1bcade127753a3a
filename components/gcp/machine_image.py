"""Checks in the preview that machines can start from an image of the team's own."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_gcp as gcp

from ..config import Queue
from ..config.checks.machines import unfit
from ..machines import MachineType

_OTHER = {"x86_64": "ARM64", "arm64": "X86_64"}
"""Compute Engine's name of the other architecture.
Source: https://cloud.google.com/compute/docs/reference/rest/v1/images (architecture)"""
_NOT_FOUND = ("notfound", "was not found", "error 404")


def check_image(queue: str, settings: Queue, types: Sequence[MachineType], parent: pulumi.Resource) -> None:
    """Refuse an image that the queue's machines cannot start from.

    What is in it (cloud-init, Docker) shows only when a machine starts. A login that may not see the image can still
    preview.

    Raises:
        ConfigError: It does not exist, or does not fit.
    """
    image = settings.machines.image or ""
    _, project, *_, name = image.split("/")
    family = name if "/family/" in image else None
    opts = pulumi.InvokeOptions(parent=parent)
    try:
        existing = gcp.compute.get_image(project=project, family=family, name=None if family else name, opts=opts)
    except Exception as error:
        if not any(words in str(error).lower() for words in _NOT_FOUND):
            pulumi.log.warn(f"Could not check the machine image of queue {queue}: {error}", parent)
            return
        kind = "a family with an image" if family else "an image"
        raise unfit(queue, settings, f"{kind} that exists in {project}", "Correct the name") from None
    if existing.status != "READY":
        raise unfit(queue, settings, f"an image that is ready, this one is {existing.status}", "Wait for it")
    if existing.disk_size_gb > settings.disk_gib:
        allowed = f"an image of at most {settings.disk_gib} GiB, the disk of a machine; this one has"
        raise unfit(queue, settings, f"{allowed} {existing.disk_size_gb}", "Raise scratch_gib")
    architecture = types[0].architecture
    if _is_for(_OTHER[architecture], existing.name, project, opts):
        allowed = f"an image for {architecture}, like the queue's machines; this one is for the other processor"
        raise unfit(queue, settings, allowed, "Build it for the queue's architecture")


def _is_for(architecture: str, name: str, project: str, opts: pulumi.InvokeOptions) -> bool:
    """True if an image states that it is for an architecture; old images state none.

    The provider's answer lacks the architecture, but a filter may name it; no match is an error.
    """
    try:
        gcp.compute.get_image(project=project, filter=f'(name = "{name}") (architecture = "{architecture}")', opts=opts)
    except Exception:
        return False
    return True
