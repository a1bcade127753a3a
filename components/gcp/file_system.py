"""A file system that jobs share: Filestore."""

import re
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from ..base import as_args, token
from ..config import FileSystem, FileSystemKeys, part
from ..config.checks.file_systems import check_change, size_of
from ..zones import zone_of
from .key import key_name
from .member import Member
from .project import Project

_SHARE = "files"


@dataclass
class GcpFileSystemArgs:
    """Arguments of `GcpFileSystem`."""

    settings: FileSystemKeys
    """Its keys as under `tidemill:file_systems.<name>` in a stack file; `tier` is needed."""
    network: pulumi.Input[str]
    """The machines' network, `projects/<project>/global/networks/<name>`."""
    client_range: pulumi.Input[str]
    """Address range of the machines' subnetwork, the only one that may mount it."""
    file_system: str = "shared"
    """Its name as mounts give it."""
    host_project: bool = False
    """True if the network is a shared VPC's of another project, with private services access."""
    purge: bool = False
    """Lift the protection."""
    labels: dict[str, str] | None = None
    """Labels of the file system."""


class GcpFileSystem(pulumi.ComponentResource):
    """A protected Filestore instance that only the machines' subnetwork may mount.

    Makes: a Filestore instance with one share (protected, with deletion protection), in an address range of its own
    that Filestore picks in the network; with `kms_key` of `create` a key ring, a key and its grant.

    Costs while idle: its whole size, whatever it holds: about $0.20 per GiB and month for `basic_hdd`, so about $200
    for the smallest; other tiers cost more (list price of us-west1, without warranty).

    Example:
        ```python
        network = GcpNetwork("vision-dev-network", GcpNetworkArgs(cidr="10.0.0.0/16"))
        shared = GcpFileSystem(
            "vision-dev-fs-shared",
            GcpFileSystemArgs(
                settings={"tier": "basic_hdd", "zone": "a"}, network=network.network, client_range="10.0.0.0/16"
            ),
        )
        pulumi.export("shared", shared.source)
        ```
    """

    source: pulumi.Output[str]
    """The source of a queue's mount, ``<address>:/<share>``."""

    def __init__(self, name: str, args: GcpFileSystemArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpFileSystemArgs, args)
        super().__init__(token(GcpFileSystem), name, None, opts)
        settings = part(FileSystem, args.settings, "file_systems", args.file_system)
        assert settings.tier is not None, f"{name}: settings need a tier"
        location = self._location(args.file_system, settings)
        self._check_size(name, args.file_system, settings, location)
        export = gcp.filestore.InstanceFileSharesNfsExportOptionArgs(
            ip_ranges=[args.client_range],
            access_mode="READ_WRITE",
            # Containers run as root, and files belong to the user that writes them.
            squash_mode="NO_ROOT_SQUASH",
        )
        key = None
        if settings.kms_key is not None:
            project = Project(self)
            agent = Member("files", project.agent("cloud-filer"))
            key = key_name(self, settings.kms_key, project, agent, args.labels, purge=args.purge)
        made = gcp.filestore.Instance(
            f"{name}-files",
            # Not auto-named: a preview looks up its size.
            name=name,
            location=location,
            tier=settings.tier.upper(),
            protocol="NFS_V3",
            kms_key_name=key,
            file_shares=gcp.filestore.InstanceFileSharesArgs(
                name=_SHARE, capacity_gb=size_of(settings), nfs_export_options=[export]
            ),
            networks=[
                gcp.filestore.InstanceNetworkArgs(
                    network=args.network,
                    modes=["MODE_IPV4"],
                    connect_mode="PRIVATE_SERVICE_ACCESS" if args.host_project else "DIRECT_PEERING",
                )
            ],
            deletion_protection_enabled=not args.purge,
            labels=args.labels,
            # A replacement has the same name.
            opts=pulumi.ResourceOptions(parent=self, protect=not args.purge, delete_before_replace=True),
        )
        address = made.networks.apply(lambda networks: (networks[0].ip_addresses or [""])[0])
        self.source = pulumi.Output.concat(address, ":/", _SHARE)
        self.register_outputs({"source": self.source})

    def _location(self, key: str, settings: FileSystem) -> str:
        """Its zone, or the region of a regional tier."""
        opts = pulumi.InvokeOptions(parent=self)
        region = gcp.organizations.get_client_config(opts=opts).region
        if settings.zone is None:
            return region
        zones = gcp.compute.get_zones(region=region, opts=opts).names
        return zone_of(("file_systems", key, "zone"), settings.zone, zones, f"zones of {region}")

    def _check_size(self, name: str, key: str, settings: FileSystem, location: str) -> None:
        """Refuse a smaller size in the preview, if there is a file system already that can be read."""
        try:
            instance = gcp.filestore.get_instance(name=name, location=location, opts=pulumi.InvokeOptions(parent=self))
        except Exception:
            return
        if instance.tier == (settings.tier or "").upper() and instance.file_shares:
            check_change(key, settings, int(instance.file_shares[0].capacity_gb))


_SUBNETWORK = re.compile(r"projects/(?P<project>[^/]+)/regions/(?P<region>[^/]+)/subnetworks/(?P<name>[^/]+)")


def range_of(subnetwork: str, parent: pulumi.Resource) -> pulumi.Output[str]:
    """The address range of an existing subnetwork, by its full name."""
    match = _SUBNETWORK.fullmatch(subnetwork)
    assert match, subnetwork
    opts = pulumi.InvokeOptions(parent=parent)
    return gcp.compute.get_subnetwork_output(**match.groupdict(), opts=opts).ip_cidr_range
