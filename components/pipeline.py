"""A team's whole pipeline on the cloud in its config."""

from dataclasses import dataclass
from typing import Any, Protocol

import pulumi

from tidemill import services

from . import money
from .base import as_args, token
from .config import StackKeys, parse
from .overrides import Overrides
from .protection import Protection, ProtectionArgs
from .rooms import cloud_room, service_room

NO_WORKER = """\
tidemill:worker_image is not set, so the images of the queues must contain `tidemill` and its Python themselves.
For any other image: make worker PUSH=REGISTRY, and set tidemill:worker_image to the reference that it prints."""
NO_ARM_WORKER = """\
tidemill:worker_image_arm64 is not set, so the images of queues with arm64 machines must contain `tidemill` themselves.
For any other image: make worker ARCH=arm64 PUSH=REGISTRY, and set the key to the reference that it prints."""


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

    def exports(self) -> dict[str, Any]:
        """Outputs of a stack, apart from the descriptor, by name."""
        ...


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
    exports: dict[str, Any]
    """A stack's outputs by name."""

    def __init__(self, name: str, args: PipelineArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        args = as_args(PipelineArgs, args)
        config = parse(args.config)
        overrides = Overrides(config.overrides)
        super().__init__(token(Pipeline), name, None, overrides.options(opts))
        for service, queues in services.by_service(config.cloud, config.queues).items():
            for note in service_room(service, "keys").notes(config, queues):
                pulumi.log.warn(note, self)
        if (region := pulumi.Config(config.cloud).get("region")) and (cost := money.note(config, region)):
            pulumi.log.info(cost, self)
        for kind, words in (("x86_64", NO_WORKER), ("arm64", NO_ARM_WORKER)):
            wanted = any(kind in queue.architectures(config.cloud) for queue in config.queues.values())
            if wanted and config.worker_of(kind) is None:
                pulumi.log.warn(words, self)
        parts: Parts = cloud_room(config.cloud, "pipeline").PARTS(name, config, self)
        self.descriptor, self.descriptor_uri = parts.descriptor, parts.descriptor_uri
        # Not the descriptor itself: `up` would print its hundred lines each time.
        self.exports = {"pipeline_uri": self.descriptor_uri, **parts.exports()}
        # It depends on everything, so that a destroy reaches it first.
        last = pulumi.ResourceOptions(parent=self, depends_on=parts.all)
        Protection(name, ProtectionArgs(purge=config.may_purge), last)
        overrides.check()
        self.register_outputs({"descriptor": self.descriptor, "descriptor_uri": self.descriptor_uri})
