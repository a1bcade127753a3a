"""A launch template assigns public addresses only where the stack says so.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-instance-addressing.html
"""

from .common.addresses import FORBID, public_refused
from .common.kinds import LAUNCH_TEMPLATE
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import flag, items, look


@resource_rule(
    "Launch templates assign public addresses only where the stack says egress: public.",
    HIGH,
    LAUNCH_TEMPLATE,
    parameters=FORBID,
)
def violations(args: Resource) -> Violations:
    for index, interface in enumerate(items(look(args.props, "networkInterfaces"))):
        if flag(look(interface, "associatePublicIpAddress")) is True:
            yield from public_refused(args, f"networkInterfaces[{index}].associatePublicIpAddress is true")
