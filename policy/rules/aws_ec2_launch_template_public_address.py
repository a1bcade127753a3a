"""A launch template assigns public addresses only where the stack says so.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-instance-addressing.html
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.addresses import FORBID, public_refused
from .common.kinds import LAUNCH_TEMPLATE
from .common.rule import HIGH, resource_rule
from .common.values import items, look


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    for index, interface in enumerate(items(look(args.props, "networkInterfaces"))):
        given = look(interface, "associatePublicIpAddress")
        if given and str(given).lower() == "true":
            yield from public_refused(args, f"networkInterfaces[{index}].associatePublicIpAddress is true")


POLICY = resource_rule(
    __name__,
    LAUNCH_TEMPLATE,
    violations=violations,
    description="Launch templates assign public addresses only where the stack says egress: public.",
    severity=HIGH,
    parameters=FORBID,
)
