"""The machines' network."""

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from ..base import as_args, token
from ..config import NewNetwork, part
from ..config.ranges import derived
from .flow_logs import LOG_CONFIG, flow_logs
from .project import Project

_ANYWHERE = "0.0.0.0/0"


@dataclass
class GcpNetworkArgs:
    """Arguments of `GcpNetwork`."""

    egress: str = "public"
    """How machines reach the internet: `public`, `nat` or `endpoints`; not for an existing network."""
    cidr: str | None = None
    """Address range of the subnetwork, /16 to /20; not for an existing network. Without one, a new subnetwork gets a
    /18 of 10.0.0.0/8 that follows from its name and region, and a subnetwork that exists keeps its own."""
    network: pulumi.Input[str] | None = None
    """An existing network, `projects/<project>/global/networks/<name>`, which stays unchanged."""
    subnetwork: pulumi.Input[str] | None = None
    """Its subnetwork, `projects/<project>/regions/<region>/subnetworks/<name>`, in the stack's region."""
    flow_logs_days: int | None = None
    """Log half of the machines' connections for so many days; not for an existing network."""
    flow_logs_key: pulumi.Input[str] | None = None
    """Full name of a key for them that admits Cloud Logging."""
    purge: bool = False
    """Lift the protection of their log bucket."""
    replace: bool = False
    """Lift the protection of the subnetwork, which cannot be deleted while it has machines."""


class GcpNetwork(pulumi.ComponentResource):
    """A subnetwork without ingress, in a new network or an existing one (or a shared VPC).

    Makes: for a new network: VPC network in custom mode, regional subnetwork (protected) with Private Google Access, a
    firewall rule that denies everything in; `nat` also a Cloud Router and Cloud NAT; with
    `flow_logs_days` a log bucket (protected), its sink, and an exclusion from the default bucket. For an existing
    network nothing: its firewall, its Private Google Access and its way out are its owner's.

    Costs while idle: `public` and `endpoints` nothing; `nat` about $4 per month for its address, and about $0.0014
    per hour for each running machine plus $0.045 per GB (list prices, without warranty).

    Example:
        ```python
        network = GcpNetwork("vision-dev-network", GcpNetworkArgs(egress="nat"))
        pulumi.export("subnetwork", network.subnetwork)
        ```
    """

    network: pulumi.Output[str]
    """The network."""
    subnetwork: pulumi.Output[str]
    """The machines' subnetwork."""
    range: pulumi.Output[str] | None
    """Address range of the subnetwork that it makes; None in an existing network."""
    external_addresses: bool
    """True if machines need public addresses to reach the internet."""

    def __init__(self, name: str, args: GcpNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpNetworkArgs, args)
        super().__init__(token(GcpNetwork), name, None, opts)
        self._name_prefix = name
        self._opts = pulumi.ResourceOptions(parent=self)
        self._replace = args.replace
        if (args.network is None) != (args.subnetwork is None):
            raise ValueError(f"{name}: set both network and subnetwork, or neither")
        if args.network is not None and args.subnetwork is not None:
            self.network = pulumi.Output.from_input(args.network)
            self.subnetwork = pulumi.Output.from_input(args.subnetwork)
            self.external_addresses = False
            self.range = None
        else:
            keys = ("egress", "cidr", "flow_logs_days")
            new = part(NewNetwork, {key: getattr(args, key) for key in keys}, "network", "create")
            self._create(new, args)
        self.register_outputs({"network": self.network, "subnetwork": self.subnetwork})

    def _create(self, args: NewNetwork, given: GcpNetworkArgs) -> None:
        name, project = self._name_prefix, Project(self)
        region, days = project.region, args.flow_logs_days
        network = gcp.compute.Network(
            f"{name}-vpc", auto_create_subnetworks=False, routing_mode="REGIONAL", opts=self._opts
        )
        subnetwork = gcp.compute.Subnetwork(
            f"{name}-subnet",
            network=network.id,
            region=region,
            ip_cidr_range=args.cidr or region.apply(lambda region: derived(name, region)),
            private_ip_google_access=True,
            log_config=None if days is None else LOG_CONFIG,
            opts=pulumi.ResourceOptions(
                parent=self,
                protect=not self._replace,
                # A range that no key gives may follow from another rule in a later version; it keeps the one it has.
                ignore_changes=None if args.cidr else ["ipCidrRange"],
            ),
        )
        gcp.compute.Firewall(
            f"{name}-closed",
            network=network.id,
            direction="INGRESS",
            # Takes precedence over rules added by hand: their default is 1000, and at 1000 a deny wins.
            priority=900,
            denies=[gcp.compute.FirewallDenyArgs(protocol="all")],
            source_ranges=[_ANYWHERE],
            opts=self._opts,
        )
        if args.egress == "nat":
            self._nat(network, subnetwork, region)
        if days is not None:
            flow_logs(self, subnetwork.name, days, project, kms_key=given.flow_logs_key, purge=given.purge)
        self.network, self.subnetwork, self.range = network.id, subnetwork.id, subnetwork.ip_cidr_range
        self.external_addresses = args.egress == "public"

    def _nat(
        self, network: gcp.compute.Network, subnetwork: gcp.compute.Subnetwork, region: pulumi.Output[str]
    ) -> None:
        name = self._name_prefix
        router = gcp.compute.Router(f"{name}-router", network=network.id, region=region, opts=self._opts)
        gcp.compute.RouterNat(
            f"{name}-nat",
            router=router.name,
            region=region,
            nat_ip_allocate_option="AUTO_ONLY",
            source_subnetwork_ip_ranges_to_nat="LIST_OF_SUBNETWORKS",
            subnetworks=[
                gcp.compute.RouterNatSubnetworkArgs(name=subnetwork.id, source_ip_ranges_to_nats=["ALL_IP_RANGES"])
            ],
            # The default of 64 ports per machine is not enough when 16 slots fetch at once.
            enable_dynamic_port_allocation=True,
            enable_endpoint_independent_mapping=False,
            min_ports_per_vm=64,
            max_ports_per_vm=4096,
            opts=self._opts,
        )
