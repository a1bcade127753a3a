"""Machines have public addresses only where the stack says so.

Source: https://cloud.google.com/compute/docs/ip-addresses#externaladdresses
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.addresses import FORBID, public_refused
from .common.kinds import MACHINES
from .common.rule import HIGH, resource_rule
from .common.values import items, look


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    for index, interface in enumerate(items(look(args.props, "networkInterfaces"))):
        for key in ("accessConfigs", "ipv6AccessConfigs"):
            if items(look(interface, key)):
                yield from public_refused(args, f"networkInterfaces[{index}].{key} is set")


POLICY = resource_rule(
    __name__,
    *MACHINES,
    violations=violations,
    description="Machines have public addresses only where the stack says egress: public.",
    severity=HIGH,
    parameters=FORBID,
)
