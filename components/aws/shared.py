"""The platform team's network and registry, shared by the teams of an AWS account and region."""

from dataclasses import dataclass, field
from typing import Any, Literal

import pulumi

from ..base import as_args, token
from ..shared import SharedOutput, refused
from .account import account_of
from .network import AwsNetwork, AwsNetworkArgs
from .registry import AwsRegistry, AwsRegistryArgs


class AwsSharedOutput(SharedOutput):
    """The output `shared` on AWS."""

    cloud: Literal["aws"] = "aws"
    vpc_id: str
    subnet_ids: list[str]
    security_group_id: str
    """Security group that the interface endpoints admit. It lets nothing in."""
    repositories: dict[str, str]
    """ARNs of the registry's repositories by name."""


@dataclass
class AwsSharedArgs:
    """Arguments of `AwsShared`."""

    namespace: str
    """First part of every repository's name, `shared-prod`, which the platform team types when it pushes."""
    egress: str = "nat"
    """How machines reach the internet: `nat` or `endpoints`. They have no public addresses."""
    zones: int = 3
    """Number of availability zones, one subnet each, 1 to 6. A network that has subnets keeps their zones."""
    zone_names: list[str] | None = None
    """The zones in place of a number of them, as letters or in full."""
    nat_per_zone: bool = False
    """With egress `nat`: a NAT gateway in each zone in place of one for all."""
    cidr: str | None = None
    """Address range of the VPC, /16 to /20; every subnet gets a sixteenth of it. Without one, a new VPC gets a /18 of
    10.0.0.0/8 that follows from its name and region, and a VPC that exists keeps its own."""
    ipam_pool: pulumi.Input[str] | None = None
    """An IPAM pool that gives the range, in place of `cidr`."""
    netmask: int = 18
    """Prefix length of the range that the IPAM pool gives, 16 to 20."""
    flow_logs_days: int | None = None
    """Log the machines' connections for so many days, one of CloudWatch's values."""
    extra_endpoints: list[str] = field(default_factory=list)
    """Services that also need an interface endpoint if egress is `endpoints`, such as `secretsmanager`."""
    repositories: list[str] = field(default_factory=list)
    """Names of the repositories within the namespace."""
    keep_images: int = 100
    """Images kept in each repository; the oldest expire beyond it."""
    expire_untagged_after_days: int = 14
    """Days after which an untagged image expires."""
    kms_key: pulumi.Input[str] | None = None
    """``create``, or the ARN of an existing key, for the repositories."""
    purge: bool = False
    """Lift the protection, and delete repositories with the images in them."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources."""


class AwsShared(pulumi.ComponentResource):
    """A network and a registry that the stacks of an account's teams use instead of making their own.

    Makes: an `AwsNetwork` without public addresses and an `AwsRegistry`. Each team's stack adds its own security group
    to the network, and lets its own execution role pull the repositories that its images name.

    Costs while idle: the network's NAT gateway or endpoints, once for all teams; the images' storage.

    Example:
        ```python
        home = AwsShared("shared-prod", AwsSharedArgs(namespace="shared-prod", repositories=["tidemill-worker"]))
        pulumi.export("shared", home.shared)
        ```
    """

    shared: pulumi.Output[dict[str, Any]]
    """The values that team stacks read."""
    registry_url: pulumi.Output[str]
    """Prefix of a repository's name: `docker push <url>/<name>:<tag>`."""

    def __init__(self, name: str, args: AwsSharedArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsSharedArgs, args)
        super().__init__(token(AwsShared), name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        network = AwsNetwork(
            f"{name}-network",
            AwsNetworkArgs(
                zones=args.zones,
                zone_names=args.zone_names,
                egress=args.egress,
                nat_per_zone=args.nat_per_zone,
                cidr=args.cidr,
                ipam_pool=args.ipam_pool,
                netmask=args.netmask,
                flow_logs_days=args.flow_logs_days,
                extra_endpoints=args.extra_endpoints,
                tags=args.tags,
            ),
            child,
        )
        registry = AwsRegistry(
            f"{name}-registry",
            AwsRegistryArgs(
                namespace=args.namespace,
                repositories=args.repositories,
                keep_images=args.keep_images,
                expire_untagged_after_days=args.expire_untagged_after_days,
                kms_key=args.kms_key,
                purge=args.purge,
                tags=args.tags,
            ),
            child,
        )
        self.registry_url = registry.url
        content = {
            "region": account_of(self).region,
            "egress": args.egress,
            "vpc_id": network.vpc_id,
            "subnet_ids": network.subnet_ids,
            "security_group_id": network.security_group_id,
            "registry_url": registry.url,
            "repositories": registry.arns,
        }
        self.shared = pulumi.Output.from_input(content).apply(
            lambda plain: AwsSharedOutput.model_validate(plain).model_dump()
        )
        self.register_outputs({"shared": self.shared, "registry_url": self.registry_url})


def repository_arns(stack: str | None, content: AwsSharedOutput | None, names: list[str]) -> list[str]:
    """ARNs of the shared repositories that the images of a team's stack name.

    Raises:
        ConfigError: the shared stack does not have one of them.
    """
    if stack is None or content is None:
        return []
    for name in names:
        if name not in content.repositories:
            existing = ", ".join(sorted(content.repositories)) or "none"
            raise refused(
                "registry",
                stack,
                f"a stack with the repository {name!r}, this one has {existing}",
                "Correct the shared:// image, or add the repository to tidemill-shared:registry",
            )
    return [content.repositories[name] for name in names]
