"""Subnets by their zones."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from ..config import ConfigError
from ..config.errors import shown
from ..config.later import Listed, plain
from ..zones import zone_of

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def zones_of(subnet_ids: Listed, parent: pulumi.Resource) -> list[str]:
    """The zone of each subnet of an existing network, in their order.

    Raises:
        ConfigError: one cannot be read, or is not known before anything is made.
    """
    if not isinstance(subnet_ids, Sequence) or len(known := plain(subnet_ids)) < len(subnet_ids):
        raise ConfigError(
            "tidemill:network.existing.subnet_ids",
            shown(subnet_ids),
            "plain ids where queues name zones or the stack makes file systems, whose number follows the zones",
            "Write the ids down, or leave machines.zones and file_systems out",
        )
    opts = pulumi.InvokeOptions(parent=parent)
    zones = []
    for subnet in known:
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


def zones_for(network: str, count: int, names: Sequence[str] | None, parent: pulumi.Resource) -> list[str]:
    """The zones of a new network's subnets, sorted: those that are named, or as many as are wanted.

    Of the latter, zones in which the network has subnets come first, whatever AWS says of them today: a zone that is
    impaired, new, or no longer offered to new customers neither costs a subnet nor moves one.

    Raises:
        ConfigError: the region has no such zone, or not so many.
    """
    found = _zones(parent, state="available") if names is None else _zones(parent)
    if names is not None:
        key = ("network", "create", "zone_names")
        return sorted({zone_of((*key, index), name, found, "zones of the region") for index, name in enumerate(names)})
    kept = _kept(network, parent)
    zones = [*kept, *(zone for zone in found if zone not in kept)]
    if len(zones) < count:
        raise ConfigError(
            "tidemill:network.create.zones",
            str(count),
            f"1 to {len(zones)} in this region ({', '.join(sorted(zones))})",
            "Lower it",
        )
    return sorted(zones[:count])


def nat_zone(network: str, zones: Sequence[str], parent: pulumi.Resource, *, stays: bool = False) -> str:
    """The zone of a new network's first NAT gateway: where it stands, if that is still one of `zones`; else the first.

    If several networks of the account have the name and their gateways' zones differ, it is the first too.

    Args:
        stays: refuse to move it, because the zone that it would move to gets a gateway of its own.

    Raises:
        ConfigError: it would have to move to a zone that has a gateway: its place there is not free before all else is
            made.
    """
    found = _zones_of(network, "public", parent)
    if len(found) != 1 or found <= {*zones}:
        return next(iter(found)) if len(found) == 1 else zones[0]
    if stays or zones[0] in _zones_of(network, "nat", parent):
        raise ConfigError(
            "tidemill:network.create.nat_per_zone",
            "true" if stays else "false",
            f"zones that include {next(iter(found))}, where the first NAT gateway stands; these are {', '.join(zones)}",
            "Keep the zone, or set nat_per_zone to false for one `pulumi up` with the old zones, and change them in "
            "the next",
        )
    return zones[0]


def _zones_of(network: str, kind: str, parent: pulumi.Resource) -> set[str]:
    return {zone for stands in _zones_by_vpc(network, kind, parent).values() for zone in stands}


def _zones(parent: pulumi.Resource, state: str | None = None) -> list[str]:
    """The region's zones that need no opt-in, sorted; without a state also those that are impaired."""
    return sorted(
        aws.get_availability_zones(
            state=state,
            filters=[{"name": "opt-in-status", "values": ["opt-in-not-required"]}],
            opts=pulumi.InvokeOptions(parent=parent),
        ).names
    )


def _kept(network: str, parent: pulumi.Resource) -> list[str]:
    """Zones in which the network has subnets, by the names that it gives them; none before the first `up`.

    Raises:
        ConfigError: several networks of the account have the name, and their zones differ.
    """
    zones = _zones_by_vpc(network, "subnet", parent)
    first, *others = zones.values() or [set[str]()]
    if any(other != first for other in others):
        raise ConfigError(
            "tidemill:network.create.zone_names",
            "nothing",
            "the zones of this network",
            "; ".join(f"{vpc} has {', '.join(sorted(found))}" for vpc, found in sorted(zones.items())),
            sentence=f" is missing: {len(zones)} networks of the account are named {network}",
        )
    return sorted(first)


def _zones_by_vpc(network: str, kind: str, parent: pulumi.Resource) -> dict[str, set[str]]:
    """Zones of the subnets of a kind, by the VPCs of the account that have the network's name."""
    opts = pulumi.InvokeOptions(parent=parent)
    names = [f"{network}-{kind}-{letter}" for letter in _LETTERS]
    ids = aws.ec2.get_subnets(filters=[{"name": "tag:Name", "values": names}], opts=opts).ids
    zones: dict[str, set[str]] = {}
    for each in ids:
        subnet = aws.ec2.get_subnet(id=each, opts=opts)
        zones.setdefault(subnet.vpc_id, set()).add(subnet.availability_zone)
    return zones
