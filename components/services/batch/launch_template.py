"""How the machines of a queue on AWS Batch are launched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi
import pulumi_aws as aws

from ...base import named
from ...config import Queue, Rung
from ...outbound import Outbound
from .purchase import block, reservation
from .user_data import Way, user_data

_SMALL_GPU = "g6f.large"


@dataclass
class Boot:
    """User data, key and tags, which all launch templates of a queue share."""

    user_data: pulumi.Input[str]
    kms_key: pulumi.Input[str] | None
    tags: Mapping[str, str] | None


def boot_data(
    settings: Queue, store_uri: pulumi.Input[str], pointer: str | None, outbound: Outbound
) -> pulumi.Input[str]:
    """The user data of a queue's machines.

    Args:
        pointer: path in the store of the object that names the worker's image; None if the images contain the worker.
    """
    small = any(machine.type == _SMALL_GPU for machine in settings.types("aws"))
    written = partial(user_data, settings.mounts, local=settings.scratch == "local", overcommit=small)
    proxy, certificates = outbound.proxy, outbound.certificates
    if pointer is None and proxy is None:
        return written(way=Way(certificates=certificates))
    known: pulumi.Output[dict[str, Any]] = pulumi.Output.from_input({"store": store_uri, "past": outbound.past})
    return known.apply(
        lambda known: written(
            f"{known['store']}{pointer}" if pointer is not None else None, way=Way(proxy, known["past"], certificates)
        )
    )


def launch_template(
    name: str, settings: Queue, boot: Boot, parent: pulumi.Resource, rung: Rung | None = None
) -> aws.ec2.LaunchTemplate:
    """A launch template for the rungs of a queue, or for one that has a reservation."""
    tags, machines = named(boot.tags, name), f"{name}-machines"
    # A rung's name leaves no room for the ending in the 125 characters of a template's.
    aliases: list[pulumi.Alias | str] = [pulumi.Alias(name=machines)] if rung else []
    volume = aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
        volume_type="gp3",
        volume_size=settings.disk_gib,
        encrypted="true",
        kms_key_id=boot.kms_key,
        delete_on_termination="true",
    )
    return aws.ec2.LaunchTemplate(
        name if rung else machines,
        block_device_mappings=[
            # Amazon Linux's root device: nothing needs formatting before the agent starts.
            aws.ec2.LaunchTemplateBlockDeviceMappingArgs(device_name="/dev/xvda", ebs=volume)
        ],
        # Not imageIdOverride: the provider reads its removal as no change. Batch takes the template's image next.
        # Source: https://docs.aws.amazon.com/batch/latest/userguide/ami-selection-order.html
        image_id=settings.machines.image,
        metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
            http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
        ),
        tag_specifications=[
            aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=tags) for kind in _tagged(boot.tags)
        ],
        capacity_reservation_specification=reservation(rung) if rung else None,
        instance_market_options=block(rung) if rung else None,
        user_data=boot.user_data,
        update_default_version=True,
        tags=boot.tags,
        opts=pulumi.ResourceOptions(parent=parent, aliases=aliases),
    )


def _tagged(tags: Mapping[str, str] | None) -> list[str]:
    """Kinds of what Batch makes from the template, and tags. No template tags Spot requests, which cost nothing: where
    one does, no On-Demand machine starts, and the rungs of a queue share theirs.

    Network interfaces get tags where a company's are among them: for Tidemill's alone, stacks that run already would
    get new machines.
    Source: https://github.com/github-aws-runners/terraform-aws-github-runner/issues/4561
    """
    company = any(not key.startswith("tidemill:") for key in tags or {})
    return ["instance", "volume", *(["network-interface"] if company else [])]
