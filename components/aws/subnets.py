"""Subnets by their zones."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from ..config import ConfigError
from ..config.errors import shown


def zones_of(subnet_ids: Sequence[str], parent: pulumi.Resource) -> list[str]:
    """The zone of each subnet of an existing network, in their order.

    Raises:
        ConfigError: one cannot be read.
    """
    opts = pulumi.InvokeOptions(parent=parent)
    zones = []
    for subnet in subnet_ids:
        try:
            zones.append(aws.ec2.get_subnet(id=subnet, opts=opts).availability_zone)
        except Exception as error:
            reason = " ".join(str(error).split())
            raise ConfigError(
                "tidemill:network", shown(subnet), "subnets that can be read", f"The cloud says: {reason}"
            ) from None
    return zones


def subnets_in(
    subnet_ids: pulumi.Input[list[str]], zones: Sequence[str], wanted: Sequence[str]
) -> pulumi.Input[list[str]]:
    """The subnets in the wanted zones; all of them if none is wanted.

    Args:
        zones: The zones of ``subnet_ids``, in their order.
    """
    if not wanted:
        return subnet_ids
    kept = [index for index, zone in enumerate(zones) if zone in wanted]
    return pulumi.Output.from_input(subnet_ids).apply(lambda ids: [ids[index] for index in kept])
