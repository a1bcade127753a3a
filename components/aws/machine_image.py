"""Checks in the preview that machines can start from an image of the team's own."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from ..config import Queue
from ..config.checks.machines import unfit
from ..machines import MachineType

ROOT_DEVICE = "/dev/xvda"
"""Amazon Linux's root device, whose size and encryption the launch template sets."""
_NOT_FOUND = ("query returned no results", "invalidamiid")


def check_image(queue: str, settings: Queue, types: Sequence[MachineType], parent: pulumi.Resource) -> None:
    """Refuse an image that the queue's machines cannot start from, or that would not get its disk.

    What is in it (ECS agent, cloud-init, Python) shows only when a machine starts. A login that may not see images can
    still preview.

    Raises:
        ConfigError: It does not exist here, or does not fit.
    """
    wanted = [aws.ec2.GetAmiFilterArgs(name="image-id", values=[settings.machines.image or ""])]
    try:
        existing = aws.ec2.get_ami(filters=wanted, opts=pulumi.InvokeOptions(parent=parent))
    except Exception as error:
        if not any(words in str(error).lower() for words in _NOT_FOUND):
            pulumi.log.warn(f"Could not check the machine image of queue {queue}: {error}", parent)
            return
        raise unfit(
            queue, settings, "an image of this region that this account may use", "Copy it here or share it"
        ) from None
    architecture, gib = types[0].architecture, settings.disk_gib
    sizes = [
        int(each.ebs.get("volume_size") or 0)
        for each in existing.block_device_mappings
        if each.device_name == existing.root_device_name
    ]
    for fits, allowed, fix in (
        (existing.state == "available", f"an image that is available, this one is {existing.state}", "Wait for it"),
        (existing.platform != "windows", "a Linux image", "Build it from Batch's Amazon Linux 2023"),
        (
            existing.architecture == architecture,
            f"an image for {architecture}, like the queue's machines; this one is for {existing.architecture}",
            "Build it for the queue's architecture",
        ),
        (
            existing.root_device_name == ROOT_DEVICE,
            f"an image with the root device {ROOT_DEVICE}, which gets the queue's disk; this one has "
            + (existing.root_device_name or "none"),
            "Build it from Amazon Linux 2023",
        ),
        (
            max(sizes, default=0) <= gib,
            f"an image of at most {gib} GiB, the disk of a machine; this one has {max(sizes, default=0)}",
            "Raise scratch_gib",
        ),
    ):
        if not fits:
            raise unfit(queue, settings, allowed, fix)
