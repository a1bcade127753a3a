"""Nothing gets in from outside: no security group rule admits a public address range.

Workers fetch their work; no one needs to reach them.
Source: https://docs.aws.amazon.com/vpc/latest/userguide/security-group-rules.html
"""

from typing import Any

from .common.addresses import is_outside
from .common.rule import CRITICAL, Resource, Violations, resource_rule
from .common.values import items, look

GROUPS = ("aws:ec2/securityGroup:SecurityGroup", "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup")
RULE = "aws:ec2/securityGroupRule:SecurityGroupRule"
INGRESS_RULE = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
_BLOCKS = ("cidrBlocks", "ipv6CidrBlocks", "cidrIpv4", "cidrIpv6")


@resource_rule("No security group admits an address range from outside.", CRITICAL, *GROUPS, RULE, INGRESS_RULE)
def violations(args: Resource) -> Violations:
    rules: list[Any] = [args.props]
    if args.resource_type in GROUPS:
        rules = items(look(args.props, "ingress"))
    elif args.resource_type == RULE and look(args.props, "type") == "egress":
        return
    for rule in rules:
        blocks = [block for key in _BLOCKS for block in items(look(rule, key))]
        for block in filter(is_outside, blocks):
            yield (
                f"{block} may come in: machines would be reachable from outside. Remove the rule, or admit a security "
                "group or a private range."
            )
