"""The machines' network as plain data: a new one, an existing one, or a shared stack's."""

import re
from typing import Annotated, Literal

from pydantic import Field

from .later import Listed, ListFromResource, Text, from_resource
from .model import Model
from .ranges import RANGE
from .types import IPAM_POOL, NETWORK, SUBNETWORK, StackName, Zone, matching, unique


class NewNetwork(Model):
    """A VPC that the stack makes."""

    zones: int = Field(
        default=3,
        ge=1,
        le=6,
        description="AWS only. Number of availability zones, one subnet each. More zones, more Spot capacity. A "
        "network that exists keeps its zones. On GCP the one subnetwork spans every zone of its region.",
    )
    zone_names: Annotated[list[Zone], unique] | None = Field(
        default=None,
        min_length=1,
        max_length=6,
        description="AWS only. These zones in place of a number of them, as letters or in full: [a, b, c].",
    )
    egress: Literal["public", "nat", "endpoints"] = Field(
        default="public",
        description="How machines reach the internet. `public`: own addresses, no way in; nothing idle. `nat`: one NAT "
        "gateway, about $33 per month idle (GCP: Cloud NAT, about $4 for its address). `endpoints`: no internet; on "
        "AWS 6 or more interface endpoints, each about $7 per month and zone idle; on GCP Private Google Access, "
        "nothing idle.",
    )
    nat_per_zone: bool = Field(
        default=False,
        description="AWS only, with egress nat: a NAT gateway in each zone, each about $37 per month with its address. "
        "A zone that fails then takes no other's way out with it, and nothing is paid for traffic between zones. An "
        "account has 5 addresses per region unless it asked for more. On GCP Cloud NAT spans the region's zones.",
    )
    cidr: Annotated[str, matching(RANGE, "an IPv4 range such as 10.4.0.0/16, /16 to /20")] | None = Field(
        default=None,
        description="Address range of the VPC, /16 to /20; every zone gets a sixteenth of it. On GCP all of it is the "
        "subnetwork's. Left out, it is a /18 of 10.0.0.0/8 that follows from team, environment and region; a "
        "network that exists keeps its range.",
        examples=["10.4.0.0/16"],
    )
    ipam_pool: (
        Annotated[
            Text, from_resource(IPAM_POOL, "an id such as ipam-pool-0123456789abcdef0", "network.create.ipam_pool")
        ]
        | None
    ) = Field(
        default=None,
        description="AWS only. Let this IPAM pool of the region give the range, in place of `cidr`. The pool's owner "
        "pays per address in use.",
        examples=["ipam-pool-0123456789abcdef0"],
    )
    netmask: int = Field(
        default=18, ge=16, le=20, description="AWS only. Prefix length of the range that the IPAM pool gives."
    )
    flow_logs_days: int | None = Field(
        default=None,
        ge=1,
        le=3653,
        description="Log the machines' connections, in CloudWatch or a log bucket, for so many days; nothing idle. "
        "AWS: every connection, about $0.50 per GB of lines, and certain numbers of days only. GCP: half of them, "
        "about $0.25 to $0.50 per GiB. Encrypted with the key of the stack's logs where they have one.",
    )


_SUBNET = from_resource(
    re.compile(r"subnet-[0-9a-f]{8,17}"), "an id such as subnet-0123456789abcdef0", "network.existing.subnet_ids"
)


class ExistingNetwork(Model):
    """An existing VPC: `vpc_id` and `subnet_ids` on AWS, `network` and `subnetwork` on GCP.

    AWS: its subnets must reach ECS, ECR, CloudWatch Logs and S3. GCP: the subnetwork needs Private Google Access. A
    shared VPC's host project must let this project's Google APIs service agent use the subnetwork.
    """

    vpc_id: (
        Annotated[
            Text,
            from_resource(
                re.compile(r"vpc-[0-9a-f]{8,17}"), "an id such as vpc-0123456789abcdef0", "network.existing.vpc_id"
            ),
        ]
        | None
    ) = Field(default=None, description="AWS: The VPC.")
    subnet_ids: Annotated[Listed, ListFromResource(_SUBNET, 16)] | None = Field(
        default=None, description="AWS: the machines' subnets."
    )
    network: (
        Annotated[
            Text,
            from_resource(NETWORK, "projects/<project>/global/networks/<name>", "network.existing.network"),
        ]
        | None
    ) = Field(default=None, description="GCP: the VPC network, also of a shared VPC's host project.")
    subnetwork: (
        Annotated[
            Text,
            from_resource(
                SUBNETWORK, "projects/<project>/regions/<region>/subnetworks/<name>", "network.existing.subnetwork"
            ),
        ]
        | None
    ) = Field(default=None, description="GCP: the machines' subnetwork, in the stack's region.")


class Network(Model):
    """Where machines run: a new VPC (default), an existing one, or that of the platform team's shared stack."""

    create: NewNetwork | None = Field(
        default=None, description="Make a VPC. Leave out together with `existing` and `shared` for the default."
    )
    existing: ExistingNetwork | None = Field(default=None, description="Use an existing VPC.")
    shared: StackName | None = Field(
        default=None,
        description="Use the network of a shared stack (folder shared/), such as organization/tidemill-shared/prod. "
        "Its machines have no public addresses; its idle cost is paid once for all teams.",
    )
