"""Machines have public addresses only where the stack says so.

Source: https://cloud.google.com/compute/docs/ip-addresses#externaladdresses
"""

from .common.addresses import FORBID, public_refused
from .common.kinds import MACHINES
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import items, look


@resource_rule(
    "Machines have public addresses only where the stack says egress: public.", HIGH, *MACHINES, parameters=FORBID
)
def violations(args: Resource) -> Violations:
    for index, interface in enumerate(items(look(args.props, "networkInterfaces"))):
        for key in ("accessConfigs", "ipv6AccessConfigs"):
            if items(look(interface, key)):
                yield from public_refused(args, f"networkInterfaces[{index}].{key} is set")
