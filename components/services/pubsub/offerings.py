"""Checks that the zones of a queue's machines sell its types."""

import asyncio
from collections.abc import Sequence
from functools import lru_cache

import pulumi
import pulumi_gcp as gcp

from ...config import ConfigError
from ...config.errors import key_path, shown
from ...machines import MachineType


def check_offered(queue: str, types: Sequence[MachineType], zones: Sequence[str], parent: pulumi.Resource) -> None:
    """Refuse families with a type that no zone sells: a group would try to start it for ever.

    A login without the permission (a CI reader of an older bootstrap stack) can still preview.

    Args:
        zones: Those that machines may start in; empty for all of the region.

    Raises:
        ConfigError: No zone sells one of the types.
    """
    names = tuple(machine.type for machine in types)
    provider, run = parent.get_provider("gcp:index:Provider"), asyncio.get_running_loop()
    try:
        missing = _missing(names, tuple(zones), provider, run)
    except Exception as error:
        pulumi.log.warn(f"Could not check whether the zones sell the machines of queue {queue}: {error}", parent)
        return
    if missing:
        places = ", ".join(zones) or "the region's zones"
        rest = [machine.family for machine in types if machine.type not in missing]
        raise ConfigError(
            key_path(["queues", queue, "machines", "families"]),
            shown(sorted({machine.family for machine in types if machine.type in missing})),
            f"families whose types are sold in {places}; none has {', '.join(missing)}",
            f"Set families: [{', '.join(rest)}]" if rest else "Take other families, or another region or zone",
        )


@lru_cache(maxsize=64)
def _missing(
    names: tuple[str, ...], zones: tuple[str, ...], provider: pulumi.ProviderResource | None, run: object
) -> tuple[str, ...]:
    """The types that no zone sells. Zones are asked one after the other until every type was seen.

    Queues with the same machines ask once per run of a program.
    """
    opts = pulumi.InvokeOptions(provider=provider)
    if not zones:
        region = gcp.organizations.get_client_config(opts=opts).region
        zones = tuple(gcp.compute.get_zones(region=region, opts=opts).names)
    missing = dict.fromkeys(names)
    for zone in zones:
        wanted = " OR ".join(f'(name = "{name}")' for name in missing)
        for sold in gcp.compute.get_machine_types(zone=zone, filter=wanted, opts=opts).machine_types:
            missing.pop(sold.name, None)
        if not missing:
            break
    return tuple(missing)
