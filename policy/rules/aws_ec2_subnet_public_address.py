"""A subnet assigns public addresses only where the stack says so.

Source: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-public-ip.html
"""

from collections.abc import Iterator

from pulumi_policy import ResourceValidationArgs

from .common.addresses import FORBID, public_refused
from .common.rule import HIGH, resource_rule
from .common.values import look

TYPES = ("aws:ec2/subnet:Subnet", "aws:ec2/defaultSubnet:DefaultSubnet")


def violations(args: ResourceValidationArgs) -> Iterator[str]:
    for key in ("mapPublicIpOnLaunch", "assignIpv6AddressOnCreation"):
        if look(args.props, key) is True:
            yield from public_refused(args, f"{key} is true")


POLICY = resource_rule(
    __name__,
    *TYPES,
    violations=violations,
    description="Subnets assign public addresses only where the stack says egress: public.",
    severity=HIGH,
    parameters=FORBID,
)
