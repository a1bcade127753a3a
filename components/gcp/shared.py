"""The platform team's network and registry, shared by the teams of a Google Cloud project and region."""

from dataclasses import dataclass
from typing import Any, Literal

import pulumi

from ..base import as_args, token
from ..shared import SharedOutput
from .network import GcpNetwork, GcpNetworkArgs
from .project import Project
from .registry import GcpRegistry, GcpRegistryArgs


class GcpSharedOutput(SharedOutput):
    """The output `shared` on GCP."""

    cloud: Literal["gcp"] = "gcp"
    network: str
    """`projects/<project>/global/networks/<name>`."""
    subnetwork: str
    """`projects/<project>/regions/<region>/subnetworks/<name>`."""
    repository: str
    """Full name of the one repository, which is in `region`."""


@dataclass
class GcpSharedArgs:
    """Arguments of `GcpShared`."""

    repository: str
    """The repository's name, `shared-prod`, which the platform team types when it pushes."""
    egress: str = "nat"
    """How machines reach the internet: `nat` or `endpoints`. They have no public addresses."""
    cidr: str | None = None
    """Address range of the subnetwork, /16 to /20. Without one, a new subnetwork gets a /18 of 10.0.0.0/8 that follows
    from its name and region, and a subnetwork that exists keeps its own."""
    flow_logs_days: int | None = None
    """Log half of the machines' connections for so many days."""
    keep_images: int = 100
    """Versions kept of each image; the oldest beyond it are deleted."""
    expire_untagged_after_days: int = 14
    """Days after which an untagged image is deleted, unless it is one of those kept."""
    kms_key: pulumi.Input[str] | None = None
    """``create``, or the full name of an existing key, for the repository."""
    purge: bool = False
    """Lift the protection of the subnetwork and the repository, which is deleted with the images in it."""
    labels: dict[str, str] | None = None
    """Labels of all resources that support them."""


class GcpShared(pulumi.ComponentResource):
    """A network and a registry that the stacks of several teams use instead of making their own.

    Makes: a `GcpNetwork` without public addresses and a `GcpRegistry`. Each team's stack lets its own workers read that
    one repository. If a team has another project, this project must be the host of a shared VPC that lets the team's
    project use the subnetwork.

    Costs while idle: Cloud NAT's address if egress is `nat`, once for all teams; the images' storage.

    Example:
        ```python
        home = GcpShared("shared-prod", GcpSharedArgs(repository="shared-prod"))
        pulumi.export("shared", home.shared)
        ```
    """

    shared: pulumi.Output[dict[str, Any]]
    """The values that team stacks read."""
    registry_url: pulumi.Output[str]
    """Prefix of an image's name: `docker push <url>/<name>:<tag>`."""

    def __init__(self, name: str, args: GcpSharedArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpSharedArgs, args)
        super().__init__(token(GcpShared), name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        wanted = GcpNetworkArgs(
            egress=args.egress,
            cidr=args.cidr,
            flow_logs_days=args.flow_logs_days,
            purge=args.purge,
            replace=args.purge,
        )
        network = GcpNetwork(f"{name}-network", wanted, child)
        registry = GcpRegistry(
            f"{name}-registry",
            GcpRegistryArgs(
                repository=args.repository,
                keep_images=args.keep_images,
                expire_untagged_after_days=args.expire_untagged_after_days,
                kms_key=args.kms_key,
                purge=args.purge,
                labels=args.labels,
            ),
            child,
        )
        self.registry_url = registry.url
        content = {
            "region": Project(self).region,
            "egress": args.egress,
            "network": network.network,
            "subnetwork": network.subnetwork,
            "registry_url": registry.url,
            "repository": registry.repository,
        }
        self.shared = pulumi.Output.from_input(content).apply(
            lambda plain: GcpSharedOutput.model_validate(plain).model_dump()
        )
        self.register_outputs({"shared": self.shared, "registry_url": self.registry_url})
