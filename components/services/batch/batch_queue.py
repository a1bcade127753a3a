"""A queue on AWS Batch and its machines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi
import pulumi_aws as aws

from tidemill import layout

from ...aws.account import account_of
from ...aws.machine_image import check_image
from ...aws.offerings import check_offered
from ...aws.policy import Statement, grant
from ...aws.submitter import jobs_statements, submit_statement
from ...aws.subnets import subnets_in
from ...base import as_args, child_name, object_tags, token
from ...config import Queue, QueueKeys, Rung, part
from ...outbound import Outbound
from ...zones import chosen
from .compute_environment import ComputeSettings, compute_environment
from .describe import described
from .imported_queue import name_to_import
from .job_definition import Surroundings, job_definition
from .launch_template import Boot, boot_data, launch_template
from .mounts import check_mounts

_CANNOT_RUN = ("MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE", "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT")
"""Source: https://docs.aws.amazon.com/batch/latest/userguide/job_stuck_in_runnable.html"""

_SHARE_DECAY_SECONDS = 3600
_CREDENTIALS = "169.254.170.2"
"""Where a task's credentials come from.
Source: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/http_proxy_config.html"""


@dataclass
class AwsBatchQueueArgs:
    """Arguments of `AwsBatchQueue`."""

    queue: str
    """The queue's name as users type it."""
    settings: QueueKeys
    """The queue's keys as under `tidemill:queues.<name>` in a stack file; all but `images` have defaults."""
    images: Mapping[str, pulumi.Input[str]]
    """Image references that machines can pull, by their names in `settings`."""
    subnet_ids: pulumi.Input[list[str]]
    """Subnets of the machines."""
    security_group_ids: Sequence[pulumi.Input[str]]
    """Security groups of the machines."""
    instance_profile_arn: pulumi.Input[str]
    """Instance profile of the machines."""
    execution_role_arn: pulumi.Input[str]
    """Role that starts containers."""
    job_role_arn: pulumi.Input[str]
    """Role of the jobs."""
    store_uri: pulumi.Input[str]
    """URI of the job store."""
    log_group: pulumi.Input[str]
    """Log group of the workers."""
    team: str
    """The team; submitters may end only its jobs."""
    environment: str | None = None
    """The team's environment; submitters may not end jobs tagged with another one."""
    worker_image: pulumi.Input[str] | None = None
    """The worker's image by digest, in ECR. Machines fetch it, so the instance profile's role needs `grant_worker`.
    None if the queue's images contain the worker."""
    zones: list[str] = field(default_factory=list)
    """Zones of `subnet_ids`, one each, in their order; needed for a queue with `machines.zones`."""
    reads_mounts: bool = False
    """True if the instance profile's role may read the buckets that the queue mounts (`AwsIdentity.grant_data`).
    Without it a queue with `s3` mounts is refused: its machines could not mount them and would power off."""
    file_systems: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """The `source` of each `AwsFileSystem` that the queue's mounts name with `file_system`."""
    proxy: str | None = None
    """URL of a forward proxy for machines and jobs, `http://host:port`, without a password."""
    no_proxy: Sequence[pulumi.Input[str]] = field(default_factory=list)
    """Hosts, domains and IPv4 ranges that are reached without the proxy, such as those of a VPC's endpoints."""
    certificates: str | None = None
    """Authorities that machines, the worker and jobs trust in addition to the public ones, as PEM."""
    disk_key: pulumi.Input[str] | None = None
    """ARN of a KMS key for the machines' volumes, in place of the account's default. Its policy must admit the
    service-linked roles that start machines."""
    imported: str | None = None
    """ARN of an existing job queue to import; it keeps its name."""
    replace: bool = False
    """Lift the protection of the job queue and its compute environments."""
    tags: dict[str, str] | None = None
    """Tags of all taggable resources, including machines and their volumes."""


class AwsBatchQueue(pulumi.ComponentResource):
    """A Batch job queue over a ladder of Spot and On-Demand capacity, with a job definition per image.

    Makes: launch template, a compute environment per rung (protected), fair-share scheduling policy, job queue
    (protected), a job definition per image; on request a placement group; with a worker image the object
    ``machines/<queue>/worker`` in the store, which tells new machines its name.

    Costs while idle: nothing; machines run while there are jobs, at most up to `max_cpus` of each rung.

    Example:
        ```python
        network = AwsNetwork("vision-dev-network", AwsNetworkArgs())
        identity = AwsIdentity("vision-dev-identity", AwsIdentityArgs())
        store = AwsStore("vision-dev-store", AwsStoreArgs())
        logs = AwsLogs("vision-dev-logs", AwsLogsArgs())
        image = "docker.io/team/preprocess@sha256:" + 64 * "0"
        queue = AwsBatchQueue(
            "vision-dev-cpu",
            AwsBatchQueueArgs(
                queue="cpu",
                settings={"images": {"default": image}, "capacity": [{"market": "spot", "max_cpus": 64}]},
                images={"default": image},
                subnet_ids=network.subnet_ids,
                security_group_ids=[network.security_group_id],
                instance_profile_arn=identity.instance_profile_arn,
                execution_role_arn=identity.execution_role.arn,
                job_role_arn=identity.job_role.arn,
                store_uri=store.uri,
                log_group=logs.group,
                team="vision",
            ),
        )
        pulumi.export("queue", queue.arn)
        ```
    """

    arn: pulumi.Output[str]
    """The job queue's ARN."""
    markets: dict[str, pulumi.Output[str]]
    """ARNs of the job queues of jobs that ask for one market, by the market."""
    job_definitions: dict[str, pulumi.Output[str]]
    """ARNs of the current job definition revisions, by image name."""

    def __init__(self, name: str, args: AwsBatchQueueArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(AwsBatchQueueArgs, args)
        super().__init__(token(AwsBatchQueue), name, None, opts)
        self._args = args
        self._child = pulumi.ResourceOptions(parent=self)
        self._account = account_of(self)
        self._settings = settings = part(Queue, args.settings, "queues", args.queue)
        self._outbound = Outbound.of(args.proxy, args.no_proxy, args.certificates, _CREDENTIALS)
        check_mounts(args.queue, settings, args.file_systems, reads_buckets=args.reads_mounts)
        by_rung = self._rungs(name, settings)
        self._open = rungs = [environment for environment, _ in by_rung]
        shares = self._shares(name)
        self.arn = self._queue(f"{name}-queue", settings, shares, rungs, args.imported).arn
        self.markets = {
            market: self._queue(
                f"{name}-market-{market.replace('_', '-')}",
                settings,
                shares,
                [each for each, of in by_rung if of == market],
            ).arn
            for market in settings.per_job.markets
        }
        self._point_to_worker(name)
        definitions = self._definitions(name, settings, rungs)
        self.job_definitions = {image: definition.arn for image, definition in definitions.items()}
        self._revisions = [pulumi.Output.concat(d.arn_prefix, ":*") for d in definitions.values()]
        self.register_outputs({"arn": self.arn, "job_definitions": self.job_definitions})

    def _rungs(self, name: str, settings: Queue) -> list[tuple[aws.batch.ComputeEnvironment, str]]:
        """The queue's environments, each with its market. A draining one is made too, but belongs to no queue."""
        args, types = self._args, settings.types("aws")
        wanted = settings.machines.zones
        zones = chosen(args.queue, wanted, args.zones, "zones of the machines' subnets") if wanted else []
        check_offered(args.queue, types, self, zones)
        if settings.machines.image:
            check_image(args.queue, settings, types, self)
        fleet = ComputeSettings(
            instance_types=[machine.type for machine in types],
            image_type="ECS_AL2023_NVIDIA" if settings.item.gpus else "ECS_AL2023",
            launch_template=launch_template(name, settings, self._boot(settings), self),
            instance_profile_arn=args.instance_profile_arn,
            subnet_ids=subnets_in(args.subnet_ids, args.zones, zones),
            security_group_ids=args.security_group_ids,
            placement_group=self._placement_group(name, settings.aws.placement_group),
            tags=args.tags,
            protect=not args.replace,
        )
        made = [
            compute_environment(f"{name}-{_label(rung)}", rung, self._of_rung(name, settings, rung, fleet), self)
            for rung in settings.capacity
        ]
        return [(each, rung.market) for each, rung in zip(made, settings.capacity, strict=True) if not rung.drain]

    def _of_rung(self, name: str, settings: Queue, rung: Rung, shared: ComputeSettings) -> ComputeSettings:
        """Settings of one rung: a rung with a reservation has a launch template of its own, the others share one."""
        if rung.reservation is None:
            return shared
        template = launch_template(f"{name}-{_label(rung)}", settings, self._boot(settings), self, rung)
        return replace(shared, launch_template=template)

    def _boot(self, settings: Queue) -> Boot:
        args, out = self._args, self._outbound
        pointer = f"/{self._pointer}" if args.worker_image is not None else None
        data = boot_data(settings, args.store_uri, pointer, out)
        return Boot(data, args.disk_key, args.tags)

    @property
    def _pointer(self) -> str:
        """Key of the object that names the worker which a new machine fetches before its first container."""
        return f"{layout.MACHINES}/{self._args.queue}/worker"

    def _point_to_worker(self, name: str) -> None:
        if self._args.worker_image is None:
            return
        store = pulumi.Output.from_input(self._args.store_uri)
        aws.s3.BucketObjectv2(
            f"{name}-worker",
            bucket=store.apply(lambda uri: uri.removeprefix("s3://")),
            key=self._pointer,
            content=self._args.worker_image,
            content_type="text/plain",
            server_side_encryption="AES256",  # no secret, and machines need no KMS key for it
            tags=object_tags(self._args.tags),
            opts=self._child,
        )

    def _placement_group(self, name: str, strategy: str | None) -> pulumi.Output[str] | None:
        if strategy is None:
            return None
        group = aws.ec2.PlacementGroup(f"{name}-placement", strategy=strategy, tags=self._args.tags, opts=self._child)
        return group.name

    def _shares(self, name: str) -> aws.batch.SchedulingPolicy:
        # It cannot be added to a queue later: https://docs.aws.amazon.com/batch/latest/APIReference/API_UpdateJobQueue.html
        return aws.batch.SchedulingPolicy(
            f"{name}-shares",
            fair_share_policy=aws.batch.SchedulingPolicyFairSharePolicyArgs(share_decay_seconds=_SHARE_DECAY_SECONDS),
            tags=self._args.tags,
            opts=self._child,
        )

    def _queue(
        self,
        name: str,
        settings: Queue,
        shares: aws.batch.SchedulingPolicy,
        rungs: list[aws.batch.ComputeEnvironment],
        imported: str | None = None,
    ) -> aws.batch.JobQueue:
        existing = name_to_import(self._args.queue, imported, self) if imported else None
        return aws.batch.JobQueue(
            child_name(name, existing),
            name=existing,
            state="ENABLED",
            priority=1,
            scheduling_policy_arn=shares.arn,
            compute_environment_orders=[
                aws.batch.JobQueueComputeEnvironmentOrderArgs(order=order, compute_environment=rung.arn)
                for order, rung in enumerate(rungs, start=1)
            ],
            # Not at once: Batch also gives this reason for a moment while it scales from zero (Nextflow 7479).
            job_state_time_limit_actions=[
                aws.batch.JobQueueJobStateTimeLimitActionArgs(
                    action="CANCEL",
                    state="RUNNABLE",
                    reason=reason,
                    max_time_seconds=settings.stuck_after_minutes * 60,
                )
                for reason in _CANNOT_RUN
            ],
            tags=self._args.tags,
            # Waiting jobs are lost with it.
            opts=pulumi.ResourceOptions(parent=self, protect=not self._args.replace, import_=imported),
        )

    def _definitions(
        self, name: str, settings: Queue, rungs: list[aws.batch.ComputeEnvironment]
    ) -> Mapping[str, aws.batch.JobDefinition]:
        args = self._args
        around = Surroundings(
            queue=args.queue,
            store_uri=args.store_uri,
            region=self._account.region,
            log_group=args.log_group,
            job_role_arn=args.job_role_arn,
            execution_role_arn=args.execution_role_arn,
            worker_image=args.worker_image,
            file_systems=args.file_systems,
            outbound=self._outbound,
            tags=args.tags,
            rungs=rungs,
        )
        return {
            image: job_definition(f"{name}-{image}", reference, settings, around, self)
            for image, reference in args.images.items()
        }

    def grant_submit(self, role: aws.iam.Role) -> None:
        """Let a role submit to this queue, watch all jobs, and end the team's jobs."""
        grant(self, "submit", role, self.submit_statements())

    def submit_statements(self) -> list[Statement]:
        """A submitter's permissions on this queue, and on the team's jobs."""
        args = self._args
        jobs = jobs_statements(self._account, args.team, args.environment)
        return [submit_statement(self.submit_arns, args.team), *jobs]

    def described(self) -> dict[str, Any]:
        """The queue in a pipeline's descriptor, by its name (`tidemill_pulumi.describe`)."""
        return {self._args.queue: described(self._settings, self)}

    @property
    def clusters(self) -> list[pulumi.Output[str]]:
        """Names of the ECS clusters of its machines, one per rung that takes jobs."""
        return [rung.ecs_cluster_arn.apply(lambda arn: arn.rpartition("/")[2]) for rung in self._open]

    @property
    def submit_arns(self) -> list[pulumi.Output[str]]:
        """The resources that SubmitJob names: the queue, those of its markets, and all revisions of job definitions."""
        return [self.arn, *self.markets.values(), *self._revisions]


def _label(rung: Rung) -> str:
    market = rung.market.replace("_", "-")
    return f"{market}-{rung.name}" if rung.name else market
