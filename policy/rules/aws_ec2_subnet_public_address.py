"""A subnet assigns public addresses only where the stack says so.

Source: https://docs.aws.amazon.com/vpc/latest/userguide/subnet-public-ip.html
"""

from .common.addresses import FORBID, public_refused
from .common.rule import HIGH, Resource, Violations, resource_rule
from .common.values import flag, look

TYPES = ("aws:ec2/subnet:Subnet", "aws:ec2/defaultSubnet:DefaultSubnet")


@resource_rule(
    "Subnets assign public addresses only where the stack says egress: public.", HIGH, *TYPES, parameters=FORBID
)
def violations(args: Resource) -> Violations:
    for key in ("mapPublicIpOnLaunch", "assignIpv6AddressOnCreation"):
        if flag(look(args.props, key)) is True:
            yield from public_refused(args, f"{key} is true")
