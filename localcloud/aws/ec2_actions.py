"""The resources of EC2's operations. An id's prefix says its kind; a resource that a call creates has no id yet.

Source: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
"""

from __future__ import annotations

import re
from typing import Any

from moto.ec2.models import ec2_backends

from localcloud.aws.accounts import ACCOUNT

KINDS = {"vpc": "vpc", "subnet": "subnet", "rtb": "route-table", "rtbassoc": "route-table", "igw": "internet-gateway",
         "nat": "natgateway", "eipalloc": "elastic-ip", "eipassoc": "elastic-ip", "sg": "security-group",
         "sgr": "security-group-rule", "lt": "launch-template", "pg": "placement-group", "vpce": "vpc-endpoint",
         "eni": "network-interface", "i": "instance"}  # fmt: skip
ID = re.compile(rf"({'|'.join(KINDS)})-[0-9a-f]{{8,}}")
MADE = re.compile(r"Create(Vpc|Subnet|RouteTable|InternetGateway|SecurityGroup|LaunchTemplate|VpcEndpoint)")
NEW = {"AllocateAddress": "elastic-ip/*", "CreateNatGateway": "natgateway/*", "RunInstances": "instance/*"}


def ec2_resources(operation: str, params: dict[str, Any]) -> list[str]:
    """Return the resources that a call names or creates, without the ARN's beginning; none for describing calls."""
    if operation.startswith(("Describe", "Get")):
        return []
    named = sorted({f"{KINDS[found[1]]}/{text}" for text in params.values() if (found := ID.fullmatch(str(text)))})
    if operation.endswith("PlacementGroup"):
        named.append(f"placement-group/{params.get('GroupName', '*')}")
    if made := MADE.fullmatch(operation):
        named.append(re.sub(r"(?<!^)(?=[A-Z])", "-", made[1]).lower() + "/*")
    return named + ([NEW[operation]] if operation in NEW else [])


def tagged_on_creation(operation: str, params: dict[str, Any]) -> bool:
    """Whether a call also requires `ec2:CreateTags` on what it creates.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html
    """
    creates = operation in NEW or MADE.fullmatch(operation) is not None
    return creates and any(name.startswith("TagSpecification.") for name in params)


def tags(arn: str, region: str) -> dict[str, str]:
    """Tags of a resource of EC2, by ARN; empty if it does not exist."""
    return dict(ec2_backends[ACCOUNT][region].tags.get(arn.rpartition("/")[2], {}))
