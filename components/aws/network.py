"""The machines' network."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pulumi
import pulumi_aws as aws

from ..base import as_args, named, token
from ..config import NewNetwork, part
from ..config.checks.common import check_range
from ..config.ranges import derived
from .account import account_of
from .checks import check_new
from .flow_logs import flow_log
from .subnets import nat_zone, zones_for

INTERFACE_ENDPOINTS = ("ecs", "ecs-agent", "ecs-telemetry", "ecr.api", "ecr.dkr", "logs")
"""The endpoints, apart from S3, that a Batch machine without internet needs.
Source: https://docs.aws.amazon.com/batch/latest/userguide/vpc-interface-endpoints.html"""

_ANYWHERE = "0.0.0.0/0"
_PRIVATE_BLOCKS_START = 8


def direct_hosts(egress: str, parent: pulumi.Resource) -> list[pulumi.Output[str]]:
    """Domains that a network which Tidemill makes reaches by its own endpoints, for the `no_proxy` of its machines.

    With `endpoints` these are all of the region's: hosts of the ECS agent have numbers (ecs-a-1, ecs-t-1).
    """
    account = account_of(parent)
    services = [""] if egress == "endpoints" else ["s3.", "s3.dualstack."]
    return [pulumi.Output.concat(service, account.region, ".", account.dns_suffix) for service in services]


@dataclass
class AwsNetworkArgs:
    """Arguments of `AwsNetwork`."""

    zones: int = 3
    """Number of availability zones, one subnet each, 1 to 6; not for an existing network. A network that has subnets
    keeps their zones."""
    zone_names: list[str] | None = None
    """The zones in place of a number of them, as letters or in full."""
    egress: str = "public"
    """How machines reach the internet: `public`, `nat` or `endpoints`; not for an existing network."""
    nat_per_zone: bool = False
    """With egress `nat`: a NAT gateway in each zone in place of one for all."""
    cidr: str | None = None
    """Address range of the VPC, /16 to /20; every subnet gets a sixteenth of it. Without one, a new VPC gets a /18 of
    10.0.0.0/8 that follows from its name and region, and a VPC that exists keeps its own."""
    ipam_pool: pulumi.Input[str] | None = None
    """An IPAM pool that gives the range, in place of `cidr`."""
    netmask: int = 18
    """Prefix length of the range that the IPAM pool gives, 16 to 20."""
    extra_endpoints: list[str] = field(default_factory=list)
    """Services that also need an interface endpoint if egress is `endpoints`, such as `secretsmanager`."""
    flow_logs_days: int | None = None
    """Log the machines' connections for so many days, one of CloudWatch's values; not for an existing network."""
    flow_logs_key: pulumi.Input[str] | None = None
    """ARN of a KMS key for them that admits CloudWatch Logs."""
    permission_boundary: pulumi.Input[str] | None = None
    """ARN of a policy that bounds the role that writes them."""
    vpc_id: pulumi.Input[str] | None = None
    """An existing VPC, which gets only a security group."""
    subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None
    """Subnets of the existing VPC."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources."""


class Routes(NamedTuple):
    """A subnet's routes, and the one to the internet if it must be there first."""

    table: aws.ec2.RouteTable
    route: aws.ec2.Route | None = None


class AwsNetwork(pulumi.ComponentResource):
    """Subnets and a security group with no way in, in a new VPC or an existing one.

    Makes: a security group and its egress rule. For a new VPC also: VPC, a subnet per zone, route table and its
    associations, S3 gateway endpoint; `public`: internet gateway and route; `nat`: also a NAT gateway with its address
    in its own public subnet (one for all zones: machines of other zones pay for traffic between zones, S3 traffic
    bypasses it; with `nat_per_zone` one in each zone, with route tables of their own); `endpoints`: an interface
    endpoint per service that Batch needs, and their security group.

    With `flow_logs_days` a flow log, its log group, and the role that writes it.

    Costs while idle: `public` nothing; `nat` about $33 per month and gateway; `endpoints` about $7 per month, endpoint
    and zone (list prices of us-west-2, without warranty).

    Example:
        ```python
        network = AwsNetwork("vision-dev-network", AwsNetworkArgs(zones=2, egress="public"))
        pulumi.export("subnets", network.subnet_ids)
        ```
    """

    vpc_id: pulumi.Output[str]
    """The VPC."""
    subnet_ids: pulumi.Output[list[str]]
    """Subnets of the machines."""
    security_group_id: pulumi.Output[str]
    """Security group of the machines: everything out, nothing in."""
    zones: list[str]
    """Zones of `subnet_ids`, in their order; empty for an existing network."""

    def __init__(self, name: str, args: AwsNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsNetworkArgs, args)
        super().__init__(token(AwsNetwork), name, None, opts)
        self._name_prefix = name
        self._args = args
        self._opts = pulumi.ResourceOptions(parent=self)
        self.zones = []
        if args.vpc_id is not None:
            self.vpc_id = pulumi.Output.from_input(args.vpc_id)
            self.subnet_ids = pulumi.Output.from_input(args.subnet_ids or [])  # type: ignore[assignment]
            self.security_group_id = self._security_group("machines", "Machines: everything out, nothing in").id
        else:
            self._create(self._checked())
        self.register_outputs(
            {"vpc_id": self.vpc_id, "subnet_ids": self.subnet_ids, "security_group_id": self.security_group_id}
        )

    def _tags(self, suffix: str) -> dict[str, Any]:
        return named(self._args.tags, f"{self._name_prefix}-{suffix}")

    def _checked(self) -> NewNetwork:
        """The arguments of a new network by the rules of a stack file; what another resource gives is not known yet."""
        defaults = AwsNetworkArgs()
        given = {key: getattr(self._args, key) for key in NewNetwork.model_fields}
        plain = {key: v for key, v in given.items() if v != getattr(defaults, key) and not isinstance(v, pulumi.Output)}
        new = part(NewNetwork, plain, "network", "create")
        if isinstance(self._args.ipam_pool, str | None):
            check_range(new, ["network", "create"])
        check_new(new, ["network", "create"])
        return new

    def _vpc(self, args: NewNetwork) -> aws.ec2.Vpc:
        name, pool = self._name_prefix, self._args.ipam_pool
        given = pool is not None or args.cidr is not None
        return aws.ec2.Vpc(
            f"{name}-vpc",
            cidr_block=args.cidr if given else account_of(self).region.apply(lambda region: derived(name, region)),
            ipv4_ipam_pool_id=pool,
            ipv4_netmask_length=None if pool is None else args.netmask,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=self._tags("vpc"),
            # A range that no key gives may follow from another rule in a later version; the VPC keeps the one it has.
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=None if given else ["cidrBlock"]),
        )

    def _create(self, args: NewNetwork) -> None:
        vpc = self._vpc(args)
        self.vpc_id, self._range = vpc.id, vpc.cidr_block
        public = args.egress == "public"
        table = self._route_table("routes")
        if public:
            self._route("internet", table, gateway_id=self._internet_gateway().id)
        names = zones_for(self._name_prefix, args.zones, args.zone_names, self)
        zones = {zone[-1]: zone for zone in names}
        own = self._nats(table, names, per_zone=args.nat_per_zone) if args.egress == "nat" else {}
        subnets = {
            letter: self._subnet("subnet", zone, own.get(letter, Routes(table)), public=public)
            for letter, zone in zones.items()
        }
        self.zones = [*zones.values()]
        self.subnet_ids = pulumi.Output.all(*[subnet.id for subnet in subnets.values()])
        self.security_group_id = self._security_group("machines", "Machines: everything out, nothing in").id
        if args.egress == "endpoints":
            self._interface_endpoints()
        if args.flow_logs_days is not None:
            self._flow_log(args.flow_logs_days)
        self._s3_endpoint([table, *(way.table for way in own.values())])

    def _flow_log(self, days: int) -> None:
        given = self._args
        flow_log(
            self,
            self.vpc_id,
            days,
            account_of(self),
            kms_key=given.flow_logs_key,
            permission_boundary=given.permission_boundary,
            tags=given.tags,
        )

    def _block(self, index: int) -> pulumi.Output[str]:
        """A sixteenth of the VPC's range. Each zone keeps its own, independent of other zones."""
        return self._range.apply(lambda cidr: str([*ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=4)][index]))

    def _subnet(self, kind: str, zone: str, way: Routes, *, public: bool) -> aws.ec2.Subnet:
        letter = zone[-1]
        name = f"{self._name_prefix}-{kind}-{letter}"
        first = 0 if public else _PRIVATE_BLOCKS_START
        subnet = aws.ec2.Subnet(
            name,
            vpc_id=self.vpc_id,
            availability_zone=zone,
            cidr_block=self._block(first + (ord(letter) - ord("a")) % _PRIVATE_BLOCKS_START),
            # A NAT gateway has its own address; nothing else starts in its subnet.
            map_public_ip_on_launch=self._args.egress == "public",
            tags=self._tags(f"{kind}-{letter}"),
            opts=self._opts,
        )
        aws.ec2.RouteTableAssociation(
            f"{name}-routes",
            subnet_id=subnet.id,
            route_table_id=way.table.id,
            # The way out of machines that run moves only when the new one leads somewhere.
            opts=pulumi.ResourceOptions(parent=self, depends_on=way.route),
        )
        return subnet

    def _route_table(self, suffix: str) -> aws.ec2.RouteTable:
        return aws.ec2.RouteTable(
            f"{self._name_prefix}-{suffix}", vpc_id=self.vpc_id, tags=self._tags(suffix), opts=self._opts
        )

    def _route(self, suffix: str, table: aws.ec2.RouteTable, **target: Any) -> aws.ec2.Route:
        return aws.ec2.Route(
            f"{self._name_prefix}-route-{suffix}",
            route_table_id=table.id,
            destination_cidr_block=_ANYWHERE,
            opts=self._opts,
            **target,
        )

    def _internet_gateway(self) -> aws.ec2.InternetGateway:
        return aws.ec2.InternetGateway(
            f"{self._name_prefix}-gateway", vpc_id=self.vpc_id, tags=self._tags("gateway"), opts=self._opts
        )

    def _nats(self, table: aws.ec2.RouteTable, zones: Sequence[str], *, per_zone: bool) -> dict[str, Routes]:
        """NAT gateways: one that serves every zone, and on request one for each of the others; returns their ways out
        by letters. The first keeps its name and place, so that a change of the number moves no gateway."""
        first = nat_zone(self._name_prefix, zones, self, stays=per_zone)
        gateway, routes = self._internet_gateway(), self._route_table("public-routes")
        self._route("internet", routes, gateway_id=gateway.id)
        self._route("nat", table, nat_gateway_id=self._nat("public", first, "", Routes(routes), gateway).id)
        ways = {}
        for zone in zones if per_zone else ():
            if zone != first:
                suffix = f"-{zone[-1]}"
                made = self._nat("nat", zone, suffix, Routes(routes), gateway)
                own = self._route_table(f"routes{suffix}")
                ways[zone[-1]] = Routes(own, self._route(f"nat{suffix}", own, nat_gateway_id=made.id))
        return ways

    def _nat(
        self, kind: str, zone: str, suffix: str, way: Routes, gateway: aws.ec2.InternetGateway
    ) -> aws.ec2.NatGateway:
        subnet = self._subnet(kind, zone, way, public=True)
        address = aws.ec2.Eip(
            f"{self._name_prefix}-address{suffix}", domain="vpc", tags=self._tags(f"address{suffix}"), opts=self._opts
        )
        return aws.ec2.NatGateway(
            f"{self._name_prefix}-nat{suffix}",
            allocation_id=address.allocation_id,
            subnet_id=subnet.id,
            tags=self._tags(f"nat{suffix}"),
            # The address needs the internet gateway, and AWS refuses to detach the gateway while the address is mapped.
            # A gateway that moves takes its address along, which serves one at a time.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[gateway], delete_before_replace=True),
        )

    def _security_group(self, suffix: str, description: str) -> aws.ec2.SecurityGroup:
        group = aws.ec2.SecurityGroup(
            f"{self._name_prefix}-{suffix}",
            description=description,
            vpc_id=self.vpc_id,
            tags=self._tags(suffix),
            opts=self._opts,
        )
        aws.vpc.SecurityGroupEgressRule(
            f"{self._name_prefix}-{suffix}-out",
            security_group_id=group.id,
            ip_protocol="-1",
            cidr_ipv4=_ANYWHERE,
            description="Everything out",
            tags=self._tags(f"{suffix}-out"),
            opts=self._opts,
        )
        return group

    def _s3_endpoint(self, tables: Sequence[aws.ec2.RouteTable]) -> None:
        aws.ec2.VpcEndpoint(
            f"{self._name_prefix}-s3",
            vpc_id=self.vpc_id,
            service_name=account_of(self).endpoint("s3", interface=False),
            vpc_endpoint_type="Gateway",
            route_table_ids=[table.id for table in tables],
            tags=self._tags("s3"),
            opts=self._opts,
        )

    def _interface_endpoints(self) -> None:
        name = self._name_prefix
        group = self._security_group("endpoints", "Interface endpoints: HTTPS from the machines")
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-endpoints-in",
            security_group_id=group.id,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            referenced_security_group_id=self.security_group_id,
            description="HTTPS from the machines",
            tags=self._tags("endpoints-in"),
            opts=self._opts,
        )
        for service in dict.fromkeys([*INTERFACE_ENDPOINTS, *self._args.extra_endpoints]):
            suffix = f"endpoint-{service.replace('.', '-')}"
            aws.ec2.VpcEndpoint(
                f"{name}-{suffix}",
                vpc_id=self.vpc_id,
                service_name=account_of(self).endpoint(service),
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=self.subnet_ids,
                security_group_ids=[group.id],
                tags=self._tags(suffix),
                opts=self._opts,
            )
