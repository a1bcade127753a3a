"""The descriptor: the one contract between a provisioned pipeline and its users.

A stack exports it as the output ``pipeline`` and writes it into its job store as ``pipeline.json``. With
that file's URI and a cloud login of their own, people can submit; they need to know nothing else of the stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from tidemill import layout

SCHEMA_VERSION = 1
SPEC_VERSION = 8
"""The newest job spec that this Tidemill reads. With 2 a job may have a cost limit, with 3 the lists of a large round
may be in an object of their own, with 4 items may have state and placeholders of their own, with 5 its end may be told,
with 6 items may be values, with 7 programs may be given personal secrets, with 8 items may get more memory at the next
attempt, a job may have to start within a time, and its items may be in public buckets. What needs nothing newer is
written as 1, for workers of older stacks (`tidemill.job.spec_version`)."""
LEAST_MEMORY_MIB = 64
"""Of an item."""
MIN_WORKER = "0.1.0"
"""The oldest worker whose exit codes fit the retry rules of today's stacks."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}[a-z0-9]$|^[a-z]$")]


CANCELLED = "cancelled: "
"""How the reason of an array that was cancelled begins, which a stack's rule for failed arrays on AWS leaves out."""


class WorkerExit(IntEnum):
    """Exit codes of a worker, as the retry rules of a queue on AWS Batch and the unit of a machine on GCP read them.

    They avoid the codes that programs (1 to 63) and shells (126 and above) use. Every other code means that the worker
    itself broke: Batch retries, and a machine starts it again within bounds.
    """

    DONE = 0
    """The chunk's outcomes are committed, failed items included. GCP: idle for long enough; the machine leaves."""
    RECLAIMED = 70
    """The machine is being taken back; the chunk was released. Retry elsewhere."""
    STORE_UNAVAILABLE = 71
    """The job store did not answer within its bounds; nothing was acknowledged. Retry."""
    STOPPED = 72
    """The job is cancelled or cannot start. Retrying is useless. GCP: the machine's settings or subscription cannot be
    used; no job ends a worker there."""
    BROKEN = 73
    """The worker failed on an item in a way that nothing foresaw, and gave its chunk up. Retry: after a few times the
    item is recorded as failed. Or a process does not end, and this machine is not fit for more: its item is recorded.
    No rule of a queue needs to know it."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Resources(_Model):
    """Resources that one item needs of its machine."""

    cpus: float = Field(default=1, gt=0, description="Cores. Whole numbers on AWS Batch.")
    memory_mib: int = Field(
        default=2048, ge=LEAST_MEMORY_MIB, description="Memory in MiB, the worker's own share included."
    )
    gpus: int = Field(default=0, ge=0, description="GPUs.")


class Machine(_Model):
    """A machine type that a queue may start."""

    type: str
    cpus: int = Field(description="vCPUs.")
    memory_mib: int = Field(description="Memory in MiB as the cloud states it.")
    gpus: int = 0


class Rung(_Model):
    """One step of a queue's capacity ladder."""

    market: Literal["spot", "on_demand"]
    max_cpus: int = Field(description="vCPUs that this rung may reach.")
    max_price_percent: int | None = Field(
        default=None, description="The most that this rung pays on Spot, in percent of the On-Demand price."
    )


class Image(_Model):
    """A container image of a queue, and what the cloud calls it."""

    ref: str = Field(description="The image's reference as the stack pinned it.")
    job_definition: str | None = Field(default=None, description="AWS: ARN of the job definition revision.")
    mirrored: bool = Field(
        default=False,
        exclude_if=lambda mirrored: not mirrored,
        repr=False,
        description="The reference is in a mirror, which may fetch the image when it is first pulled.",
    )


class AwsQueue(_Model):
    """The part of a queue that is AWS Batch's own."""

    job_queue: str = Field(description="ARN of the job queue.")
    markets: dict[Literal["spot", "on_demand"], str] = Field(
        default={},
        exclude_if=lambda markets: not markets,
        repr=False,
        description="By market: ARN of the job queue of jobs that ask for that market alone.",
    )


class GcpQueue(_Model):
    """The part of a queue that is Pub/Sub's and the instance group's. Names are full:
    ``projects/<project>/topics/<id>``."""

    topic: str = Field(description="Chunks are published here, one message a chunk.")
    subscription: str = Field(description="Workers pull from it.")
    dead_letters: str = Field(description="Subscription that keeps the chunks which were delivered too often.")


SERVICE_KEYS = ("service", "place", "aws", "gcp")
"""Of a queue: what is the business of its service alone."""


class Queue(_Model):
    """Where jobs wait, and the machines behind it."""

    item: Resources = Field(default=Resources(), description="What an item gets unless its job says otherwise.")
    images: dict[str, Image] = Field(description="By the name that a job gives; `default` is used when it gives none.")
    architecture: Literal["x86_64", "arm64"] = "x86_64"
    machines: list[Machine] = Field(description="Every type the fleet may contain.")
    capacity: list[Rung]
    scratch_gib: int = Field(description="Scratch space of a machine in GiB; the slots of a machine share it.")
    scratch: Literal["disk", "local"] = Field(
        default="disk",
        description="`local`: it is on the machine's own disks, which its price includes.",
    )
    service: Name | None = Field(
        default=None,
        exclude_if=lambda name: name is None,
        repr=False,
        description="How chunks reach its machines; left out for the cloud's first service.",
    )
    place: dict[str, Any] | None = Field(
        default=None,
        exclude_if=lambda place: place is None,
        repr=False,
        description="What only its service knows of it, where that has no key of its own here.",
    )
    aws: AwsQueue | None = None
    gcp: GcpQueue | None = None

    @property
    def block(self) -> AwsQueue | GcpQueue | dict[str, Any] | None:
        """The part of the queue that is its service's own; None on this machine."""
        return self.aws or self.gcp or self.place

    @property
    def markets(self) -> list[str]:
        """Markets that a job may ask for."""
        return [*self.block.markets] if isinstance(self.block, AwsQueue) else []

    def of_market(self, market: Literal["spot", "on_demand"] | None) -> Queue:
        """The queue as a job sees it that asks for one market; `KeyError` if it may not."""
        block = self.block
        if market is None:
            return self
        if not isinstance(block, AwsQueue):
            raise KeyError(market)
        key = next(key for key in SERVICE_KEYS if getattr(self, key) is block)
        rungs = [rung for rung in self.capacity if rung.market == market]
        own = block.model_copy(update={"job_queue": block.markets[market]})
        return self.model_copy(update={"capacity": rungs, key: own})

    @property
    def billed_gib(self) -> int:
        """Scratch that is billed besides a machine."""
        return 0 if self.scratch == "local" else self.scratch_gib

    @property
    def most_percent(self) -> int | None:
        """The most that a Spot machine costs, in percent of its On-Demand price; None where a rung has no cap."""
        caps = [rung.max_price_percent for rung in self.capacity if rung.market == "spot"]
        percents = [cap for cap in caps if cap is not None]
        return max(percents, default=None) if len(percents) == len(caps) else None

    @property
    def ladder(self) -> str:
        """Its rungs in words: `spot 4000 CPUs, then on_demand 256 CPUs`."""
        return ", then ".join(f"{rung.market} {rung.max_cpus} CPUs" for rung in self.capacity)


class NotifyTarget(_Model):
    """A channel or webhook that a job's end notifies.

    Attributes:
        to: The name of a channel of the stack, or a webhook's host.
        topic: The channel's topic: an ARN of SNS, or the full name of one of Pub/Sub. None for a webhook, whose address
            is a secret and in an object of its own.
    """

    to: str
    topic: str | None = None


class _Sent(_Model):
    """A template that the sender sends."""

    template: str = Field(description="Its name, or its name and version: `nightly@3`.")
    queues: list[str] = Field(description="The queues that the sender submits to.")

    @property
    def template_name(self) -> str:
        """Its template, whatever the version."""
        return self.template.partition("@")[0]


class Schedule(_Sent):
    """A template and the times at which it is sent."""

    cron: str = Field(description="Minute, hour, day of the month, month and day of the week.")
    timezone: str = Field(default="UTC", description="The zone of `cron`, of the IANA database.")
    overlap: Literal["skip", "wait", "allow"] = Field(
        default="skip", description="What happens while the job of the time before has not ended."
    )


class Arrival(_Sent):
    """A template and the place of the files that it is sent for."""

    prefix: str = Field(description="URI of the bucket, or the beginning of the URIs of the files.")
    settle_minutes: int = Field(description="Minutes without a new file before the template is sent.")
    most_per_hour: int = Field(description="The most jobs in an hour.")
    queue: str | None = Field(
        default=None,
        description="Where the bucket's events wait: the URL of a queue of SQS, or the full name of a subscription of "
        "Pub/Sub. Null where nothing is told of new files.",
    )


class Descriptor(_Model):
    """A team's pipeline in one environment, as `pipeline.json` holds it.

    Readers ignore keys they do not know, so that an older client reads a newer stack's descriptor as long as
    ``schema_version`` is the same.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    team: Name
    environment: Name
    cloud: Name = Field(description="Where it is: the name of a room of `tidemill.clouds` or of an installed package.")
    region: str
    account: str = Field(description="AWS account id or GCP project id.")
    store: str = Field(description="URI of the job store, without a trailing slash: `s3://bucket`.")
    log_group: str | None = Field(
        default=None,
        description="The workers' lines: a CloudWatch log group, or a log bucket "
        "(`projects/<project>/locations/<location>/buckets/<id>`).",
    )
    queues: dict[str, Queue]
    min_worker: str = Field(default=MIN_WORKER, description="The oldest worker that this stack's retry rules fit.")
    max_spec: int = Field(default=1, description="The newest job spec version that this stack's workers read.")
    writable: list[str] | None = Field(
        default=None,
        description="URI prefixes beside the store's `out/` that jobs may write to; null for no limit, as on this "
        "machine.",
    )
    readable: list[str] | None = Field(
        default=None,
        description="URI prefixes outside the store that jobs may read; null for no limit, as on this machine.",
    )
    channels: dict[str, str] = Field(
        default_factory=dict,
        description="Topics that may be told when a job ends, by the name that a submitter gives: ARNs of SNS, full "
        "names of Pub/Sub.",
    )
    owner: str | None = Field(
        default=None,
        exclude_if=lambda owner: owner is None,
        description="Who owns the queues, in the words of the stack file; null for the team.",
    )
    expire_jobs_after_days: int | None = Field(
        default=None,
        description="Days after which jobs and uploads are deleted; null for never.",
    )
    schedules: dict[str, Schedule] = Field(
        default_factory=dict,
        exclude_if=lambda schedules: not schedules,
        description="Templates that are sent at times, by the schedule's name.",
    )
    arrivals: dict[str, Arrival] = Field(
        default_factory=dict,
        exclude_if=lambda arrivals: not arrivals,
        description="Templates that are sent when files have arrived, by name.",
    )
    secrets: str | None = Field(
        default=None,
        exclude_if=lambda secret: secret is None,
        description="The secret that holds the personal secrets of its only submitter: an ARN, or the full name of one "
        "of Secret Manager; null where it keeps none.",
    )

    @property
    def uri(self) -> str:
        """URI of the descriptor itself, which is what a user is handed."""
        return f"{self.store}/{layout.DESCRIPTOR}"

    def may_hold_outputs(self, uri: str) -> bool:
        """True if jobs may write below a URI, as far as the descriptor says."""
        below = f"{uri.rstrip('/')}/"
        return self.writable is None or any(below.startswith(prefix) for prefix in self.output_prefixes)

    @property
    def readable_prefixes(self) -> tuple[str, ...]:
        """Prefixes of the URIs of objects that jobs may read: the empty one, where the descriptor does not say."""
        if self.readable is None:
            return ("",)
        own = (layout.JOBS, layout.OUT, layout.STATE, layout.UPLOADS)
        return (*(f"{self.store}/{folder}/" for folder in own), *_beginnings(self.readable))

    @property
    def output_prefixes(self) -> list[str]:
        """URI prefixes of outputs: an object's URI begins with one of them."""
        return [f"{self.store}/{layout.OUT}/", *_beginnings(self.writable or ())]


def _beginnings(uris: Sequence[str]) -> list[str]:
    """A bucket alone ends where its name ends; a prefix is a beginning of names, as grants read it."""
    return [uri if "/" in uri.partition("://")[2] else f"{uri}/" for uri in uris]
