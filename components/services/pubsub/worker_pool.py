"""A queue on Pub/Sub and its machines."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from typing import Any

import pulumi
import pulumi_gcp as gcp

from tidemill.fleet import FleetGroup, FleetQueue

from ...base import as_args, token
from ...config import ConfigError, Queue, QueueKeys
from ...config.checks.common import check_known
from ...config.checks.file_systems import check_file_systems
from ...config.errors import key_path
from ...gcp.machine_image import check_image
from ...gcp.member import Member
from ...gcp.project import Project
from ...outbound import Outbound
from ...zones import chosen
from .cloud_init import BUNDLE, Host, cloud_config, nfs_sources
from .instance_group import Fleet, RungResources, instance_group
from .keys import parsed
from .offerings import check_offered
from .queue_topic import ImportedTopic, Messages, messages, on_subscription, on_topic

DIRECT = ("metadata.google.internal", "googleapis.com", "pkg.dev", "gcr.io")
"""What machines reach by Private Google Access, and their metadata.
Source: https://cloud.google.com/vpc/docs/configure-private-google-access#domain-options"""


@dataclass
class GcpWorkerPoolArgs:
    """Arguments of `GcpWorkerPool`."""

    queue: str
    """The queue's name as users type it."""
    settings: QueueKeys
    """The queue's keys as under `tidemill:queues.<name>` in a stack file; all but `images` have defaults."""
    image: pulumi.Input[str]
    """Reference of the image `default` that machines can pull."""
    network: pulumi.Input[str]
    """Self link of the machines' network."""
    subnetwork: pulumi.Input[str]
    """Self link of the machines' subnetwork."""
    service_account_email: pulumi.Input[str]
    """Service account of machines, the worker and the user's code."""
    bucket: pulumi.Input[str]
    """Name of the job store's bucket."""
    external_address: bool = False
    """Give each machine a public address: needed if jobs reach the internet and the subnetwork has no NAT."""
    log: pulumi.Input[str] | None = None
    """The workers' log: ``projects/<project>/logs/<id>``; None leaves their lines on the machine."""
    worker_image: pulumi.Input[str] | None = None
    """The worker's image by digest; None if the queue's image contains the worker."""
    worker_image_arm64: pulumi.Input[str] | None = None
    """The same for machines with arm64 processors."""
    file_systems: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """The `source` of each `GcpFileSystem` that the queue's mounts name with `file_system`."""
    proxy: str | None = None
    """URL of a forward proxy for machines and jobs, `http://host:port`, without a password. Google's APIs and
    registries are always reached without it, by Private Google Access."""
    no_proxy: Sequence[pulumi.Input[str]] = field(default_factory=list)
    """Hosts, domains and IPv4 ranges that are reached without the proxy."""
    certificates: str | None = None
    """Authorities that machines, the worker and jobs trust in addition to the public ones, as PEM."""
    disk_key: pulumi.Input[str] | None = None
    """Full name of a key for the machines' disks that admits Compute Engine's service agent."""
    topic_key: pulumi.Input[str] | None = None
    """Full name of a key for the messages that admits Pub/Sub's service agent; not for an imported topic."""
    imported_topic: str | None = None
    """Full name of an existing topic to import with its subscription; both keep their names."""
    imported_subscription: str | None = None
    """Full name of that topic's subscription."""
    replace: bool = False
    """Lift the protection of the instance groups."""
    purge: bool = False
    """Lift the protection of topics and subscriptions too."""
    labels: dict[str, str] | None = None
    """Labels of all resources that support them, including machines and their disks."""


class GcpWorkerPool(pulumi.ComponentResource):
    """A topic with its subscription, and groups of machines that grow with its backlog and shrink without loss.

    Makes: topic, subscription, dead-letter topic and subscription (protected), the grants that Pub/Sub's service agent
    needs for dead letters; per rung an instance template, a regional instance group (protected), an autoscaler.

    The autoscaler adds machines, and a `GcpReconciler`, which every pool needs, removes them: a machine whose worker
    has been idle for `gcp.idle_minutes` powers itself off, and the reconciler removes machines that are off. No busy
    machine is stopped. A second rung, On-Demand, is off until the reconciler finds that Spot has run dry. Its
    autoscaler then follows the same backlog, so that for a while both rungs may start machines for it, within
    `max_cpus` of each.

    `gcp.scale_in: autoscaler` lets the autoscaler remove machines instead. It does not know which ones are busy: each
    removal kills the items on a machine, even after hours of work, and they run again elsewhere. It is for items of
    seconds that may run twice.

    Costs while idle: nothing; machines run while there are jobs, at most up to `max_cpus` of each rung. With
    `gcp.min_machines` that many machines of the first rung run around the clock: each costs per month 730 times the
    hourly price of the machine and its disks.

    Example:
        ```python
        image = "docker.io/team/preprocess@sha256:" + 64 * "0"
        pool = GcpWorkerPool(
            "vision-dev-cpu",
            GcpWorkerPoolArgs(
                queue="cpu",
                settings={"images": {"default": image}, "capacity": [{"market": "spot", "max_cpus": 64}]},
                image=image,
                network="projects/p/global/networks/n",
                subnetwork="projects/p/regions/us-west1/subnetworks/s",
                service_account_email="worker@p.iam.gserviceaccount.com",
                bucket="vision-dev-store",
            ),
        )
        pulumi.export("subscription", pool.subscription)
        ```
    """

    topic: pulumi.Output[str]
    """Full name of the topic: ``projects/<project>/topics/<id>``."""
    subscription: pulumi.Output[str]
    """Full name of the subscription that workers pull from."""
    dead_letters: pulumi.Output[str]
    """Full name of the dead-letter subscription."""
    fleet: pulumi.Output[dict[str, Any]]
    """This queue's settings for the reconciler."""

    def __init__(self, name: str, args: GcpWorkerPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(GcpWorkerPoolArgs, args)
        super().__init__(token(GcpWorkerPool), name, None, opts)
        settings = parsed(args.settings, args.queue)
        check_file_systems(args.queue, settings, args.file_systems)
        for variable, reference in settings.secrets.items():
            check_known(["queues", args.queue, "secrets", variable], reference, "machines get it as a text")
        project = Project(self)
        imported = None
        if args.imported_topic and args.imported_subscription:
            imported = ImportedTopic(args.imported_topic, args.imported_subscription)
        self._messages = messages(
            name, self, project, args.labels, purge=args.purge, imported=imported, key=args.topic_key
        )
        fleet = self._fleet(args, settings, project, self._messages)
        groups = [
            instance_group(f"{name}-{rung.market.replace('_', '-')}", rung, fleet, self, first=number == 0)
            for number, rung in enumerate(settings.capacity)
        ]
        self.topic = self._messages.topic.id
        self.subscription = self._messages.subscription.id
        self.dead_letters = self._messages.dead_letters.id
        self.fleet = self._described(args.queue, fleet, groups)
        self.register_outputs(
            {"topic": self.topic, "subscription": self.subscription, "dead_letters": self.dead_letters}
        )

    def _fleet(self, args: GcpWorkerPoolArgs, settings: Queue, project: Project, made: Messages) -> Fleet:
        types = settings.types("gcp")
        if not types:
            raise ConfigError(
                key_path(["queues", args.queue, "machines"]),
                f"{settings.machines.size} vCPUs of {', '.join(settings.machines.families)}",
                "machines of one size that an item fits on",
                "Take a size of the families' that has room for an item",
            )
        if settings.machines.image is not None:
            check_image(args.queue, settings, types, self)
        zones = self._zones(args.queue, settings)
        check_offered(args.queue, types, zones, self)
        first, second = _workers(args, {machine.architecture for machine in types})
        out = Outbound.of(args.proxy, args.no_proxy, args.certificates, *DIRECT)
        host = Host(
            queue=args.queue,
            image=args.image,
            worker_image=first,
            machines=types,
            worker_image_arm64=second,
            bucket=args.bucket,
            subscription=made.subscription.id,
            log=args.log,
            region=project.region,
            nfs=nfs_sources(settings, args.file_systems),
            variables=out.variables(BUNDLE),
            certificates=out.certificates,
        )
        return Fleet(
            settings=settings,
            machines=types,
            user_data=cloud_config(settings, host),
            subscription=made.subscription,
            network=args.network,
            subnetwork=args.subnetwork,
            external_address=args.external_address,
            service_account_email=args.service_account_email,
            labels=args.labels,
            disk_key=args.disk_key,
            zones=zones,
            replace=args.replace or args.purge,
            after=made.ready,
        )

    def _zones(self, queue: str, settings: Queue) -> list[str]:
        """The full names of `machines.zones`."""
        wanted = settings.machines.zones
        if not wanted:
            return []
        opts = pulumi.InvokeOptions(parent=self)
        region = gcp.organizations.get_client_config(opts=opts).region
        zones = gcp.compute.get_zones(region=region, opts=opts).names
        return chosen(queue, wanted, zones, f"zones of {region}")

    def _described(self, queue: str, fleet: Fleet, groups: list[RungResources]) -> pulumi.Output[dict[str, Any]]:
        minimum = fleet.settings.gcp.min_machines
        described = [
            pulumi.Output.all(group.manager.name, group.autoscaler.name).apply(
                lambda names, market=group.market, number=number: FleetGroup(
                    market, names[0], names[1], fleet.slots, 0 if number else minimum
                )
            )
            for number, group in enumerate(groups)
        ]
        values = pulumi.Output.all(self._messages.subscription.name, self._messages.topic.id, *described)
        return values.apply(lambda values: asdict(FleetQueue(queue, values[0], values[1], values[2:])))

    def grant_work(self, member: Member) -> None:
        """Let a worker's account pull, extend and acknowledge only this queue's messages."""
        on_subscription(self, "work", self._messages.subscription, member, "subscriber")

    def grant_messages(self, member: Member) -> None:
        """Let the reconciler publish chunks of jobs that have waited for others, and acknowledge those of ended jobs
        while no worker can."""
        on_topic(self, "release", self._messages.topic, member, "publisher")
        on_subscription(self, "drop", self._messages.subscription, member, "subscriber")

    def grant_send(self, member: Member) -> None:
        """Let a member publish chunks, and see that topic and subscription are there."""
        made = self._messages
        on_topic(self, "submit", made.topic, member, "publisher")
        on_topic(self, "look", made.topic, member, "viewer")
        on_subscription(self, "look-work", made.subscription, member, "viewer")

    def grant_submit(self, member: Member) -> None:
        """Let a member publish chunks, see how many wait, and take dead letters to publish them again."""
        made = self._messages
        self.grant_send(member)
        on_subscription(self, "look-dead", made.dead_letters, member, "viewer")
        on_subscription(self, "take-dead", made.dead_letters, member, "subscriber")


def _workers(
    args: GcpWorkerPoolArgs, architectures: Set[str]
) -> tuple[pulumi.Input[str] | None, pulumi.Input[str] | None]:
    """The worker's image of the machines, and that of the arm64 machines where there are others, too."""
    if architectures == {"arm64"}:
        return args.worker_image_arm64, None
    return args.worker_image, args.worker_image_arm64 if "arm64" in architectures else None
