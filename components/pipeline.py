"""A team's whole pipeline on the cloud in its config."""

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pulumi

from tidemill import services

from . import money, sending
from .base import as_args, token
from .config import ConfigError, StackKeys, parse
from .config.errors import nearest
from .overrides import Overrides
from .protection import Protection, ProtectionArgs
from .rooms import cloud_room, service_room
from .taken import refuse_taken

NO_WORKER = """\
tidemill:worker_image is not set, so the images of the queues must contain `tidemill` and its Python themselves.
For any other image: make worker PUSH=REGISTRY, and set tidemill:worker_image to the reference that it prints."""
NO_ARM_WORKER = """\
tidemill:worker_image_arm64 is not set, so the images of queues with arm64 machines must contain `tidemill` themselves.
For any other image: make worker ARCH=arm64 PUSH=REGISTRY, and set the key to the reference that it prints."""

PURGE = """\
tidemill:allow has purge: `pulumi destroy` now deletes the store with every job and result, and ends the jobs that run.
Look before it with `tidemill jobs`, and fetch what people need. To protect the stack again, remove the value."""


@dataclass
class PipelineArgs:
    """Arguments of `Pipeline`."""

    config: StackKeys
    """The stack's config: its keys without `tidemill:`."""


class Parts(Protocol):
    """The parts of a pipeline, alike on every cloud."""

    descriptor: pulumi.Output[dict[str, Any]]
    descriptor_uri: pulumi.Output[str]
    all: list[pulumi.Resource]

    def outputs(self) -> dict[str, Any]:
        """Outputs of a `Pipeline` on this cloud, by the names of its attributes."""
        ...


class NoOutputError(ConfigError, AttributeError):
    """A program asks a pipeline for an output that it does not have."""


class Pipeline(pulumi.ComponentResource):
    """A team's pipeline in one environment: network, registry, job store, identities, logs and queues.

    Type token: ``tidemill:index:Pipeline``.

    Makes: on AWS `AwsNetwork`, `AwsRegistry`, `AwsStore` with the descriptor in it, `AwsIdentity` with the submitter
    policy, `AwsLogs`, and an `AwsBatchQueue` per queue; on GCP the counterparts, a `GcpWorkerPool` per queue, and one
    `GcpReconciler`; with file systems `AwsFileSystem` or
    `GcpFileSystem`; with a budget `AwsBudget` or `GcpBudget`.

    Costs while idle: with the default config only storage; each part documents the cost of its options.

    Example:
        ```python
        image = "docker.io/team/preprocess@sha256:" + 64 * "0"
        config = {"team": "vision", "environment": "dev", "queues": {"cpu": {"images": {"default": image}}}}
        pipeline = Pipeline("vision-dev", PipelineArgs(config=config))
        pulumi.export("pipeline_uri", pipeline.descriptor_uri)
        ```
    """

    descriptor: pulumi.Output[dict[str, Any]]
    """The descriptor, as in the store's `pipeline.json`."""
    descriptor_uri: pulumi.Output[str]
    """URI of `pipeline.json`: all that a user needs, apart from a login."""
    store_bucket: pulumi.Output[str]
    """Name of the job store's bucket."""
    store_arn: pulumi.Output[str]
    """AWS: ARN of the job store's bucket."""
    store_kms_key: pulumi.Output[str] | None
    """KMS key of the job store: its ARN, on GCP its full name; None where the cloud's own encrypts it."""
    job_queue_arns: dict[str, pulumi.Output[str]]
    """AWS: ARNs of the job queues, by the names that users type."""
    topics: dict[str, pulumi.Output[str]]
    """GCP: full names of the queues' topics, by the names that users type."""
    subscriptions: dict[str, pulumi.Output[str]]
    """GCP: full names of the subscriptions that workers pull from, by queue."""
    vpc_id: pulumi.Output[str]
    """AWS: the machines' VPC."""
    subnet_ids: pulumi.Output[list[str]]
    """AWS: the machines' subnets."""
    security_group_id: pulumi.Output[str]
    """AWS: the machines' own security group. Let it in where jobs must reach something, such as your file system."""
    network: pulumi.Output[str]
    """GCP: full name of the machines' network."""
    subnetwork: pulumi.Output[str]
    """GCP: full name of the machines' subnetwork."""
    file_systems: dict[str, pulumi.Output[str]]
    """File systems that the stack makes, by name: their ARNs, on GCP `<address>:/<share>`."""
    registry_url: pulumi.Output[str]
    """Prefix of an image's name: `docker push <url>/<name>:<tag>`."""
    repository_arns: dict[str, pulumi.Output[str]]
    """AWS: ARNs of the image repositories, by their names in `registry://` images."""
    repository: pulumi.Output[str]
    """GCP: full name of the image repository."""
    job_role_arn: pulumi.Output[str]
    """AWS: role of the worker and of the jobs' programs."""
    instance_role_arn: pulumi.Output[str]
    """AWS: role of the machines."""
    execution_role_arn: pulumi.Output[str]
    """AWS: role that pulls images, reads secrets and writes log lines when a container starts."""
    worker_account: pulumi.Output[str]
    """GCP: address of the service account of machines and jobs."""
    submitter_policy_arns: list[pulumi.Output[str]]
    """AWS: policies for roles of people or services that submit. Attach all of them; empty with a
    `permission_boundary`."""
    submitter_role_arn: pulumi.Output[str] | None
    """AWS: role that the `access.submitters` may assume; None without any."""
    submitters: list[str]
    """GCP: principals that may submit, as in `access.submitters`."""
    log_group: pulumi.Output[str]
    """AWS: name of the workers' log group."""
    log_bucket: pulumi.Output[str]
    """GCP: full name of the workers' log bucket."""
    dashboard: pulumi.Output[str] | None
    """The dashboard: its name, on GCP its full name; None without `monitoring.dashboard`."""
    alarm_topic_arn: pulumi.Output[str] | None
    """AWS: topic that alarms tell; None where no one is told."""
    alarm_channels: list[pulumi.Output[str]]
    """GCP: full names of the notification channels that alarms tell."""
    exports: dict[str, Any]
    """A stack's outputs by name: all of the above but the descriptor, whose URI is `pipeline_uri`."""

    def __init__(self, name: str, args: PipelineArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(PipelineArgs, args)
        config = parse(args.config)
        overrides = Overrides(config.overrides)
        only_one = pulumi.ResourceOptions(hooks=refuse_taken(name, config, self))
        super().__init__(token(Pipeline), name, None, pulumi.ResourceOptions.merge(overrides.options(opts), only_one))
        for service, queues in services.by_service(config.cloud, config.queues).items():
            for note in service_room(service, "keys").notes(config, queues):
                pulumi.log.warn(note, self)
        if (region := pulumi.Config(config.cloud).get("region")) and (cost := money.note(config, region)):
            pulumi.log.info(cost, self)
        for note in sending.notes(config, datetime.datetime.now(datetime.UTC)):
            pulumi.log.info(note, self)
        for kind, words in (("x86_64", NO_WORKER), ("arm64", NO_ARM_WORKER)):
            wanted = any(kind in queue.architectures(config.cloud) for queue in config.queues.values())
            if wanted and config.worker_of(kind) is None:
                pulumi.log.warn(words, self)
        if "purge" in config.allow:
            pulumi.log.warn(PURGE, self)
        parts: Parts = cloud_room(config.cloud, "pipeline").PARTS(name, config, self)
        self.descriptor, self.descriptor_uri = parts.descriptor, parts.descriptor_uri
        outputs = parts.outputs()
        vars(self).update(outputs)
        # Not the descriptor itself: `up` would print its hundred lines each time.
        named = {"pipeline_uri": self.descriptor_uri, **outputs}
        if policies := outputs.get("submitter_policy_arns"):
            named["submitter_policy_arn"] = policies[0]  # for stacks that read the name from before there were several
        self.exports = {key: value for key, value in named.items() if isinstance(value, pulumi.Output) or value}
        # It depends on everything, so that a destroy reaches it first.
        last = pulumi.ResourceOptions(parent=self, depends_on=parts.all)
        Protection(name, ProtectionArgs(purge=config.may_purge), last)
        overrides.check()
        self.register_outputs({"descriptor": self.descriptor, "descriptor_uri": self.descriptor_uri, **outputs})

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            outputs = Pipeline.__annotations__
            guess = None if name in outputs else nearest(name, outputs)
            raise NoOutputError(
                f"Pipeline.{name}",
                "nothing",
                "an output of a pipeline on this cloud",
                f"Did you mean {guess!r}?" if guess else "docs/stack-outputs.md has the outputs of each cloud",
                sentence=": a pipeline on this cloud has no such output",
            )
