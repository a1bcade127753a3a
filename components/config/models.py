"""A stack's config as plain data: every key with its default, its range, a sentence and what it costs idle.

The keys of a stack file are ``tidemill:<field of StackConfig>``. Rules that need more than one key are in
``checks.py``.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

RETENTION_DAYS = (
    1,
    3,
    5,
    7,
    14,
    30,
    60,
    90,
    120,
    150,
    180,
    365,
    400,
    545,
    731,
    1096,
    1827,
    2192,
    2557,
    2922,
    3288,
    3653,
)
"""What CloudWatch Logs accepts.
Source: https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html"""

_NAME = re.compile(r"[a-z](-?[a-z0-9])*")
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KMS_KEY = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+")
_POLICY = re.compile(r"arn:aws[a-z-]*:iam::(\d{12}|aws):policy/[\w+=,.@/-]+")
_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:(root|user/[\w+=,.@/-]+|role/[\w+=,.@/-]+)")
_DATA = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^*?\s]*)?")
_ABSOLUTE = re.compile(r"(/[A-Za-z0-9._-]+)+")


def _matching(pattern: re.Pattern[str], allowed: str, longest: int = 2048) -> AfterValidator:
    def check(value: str) -> str:
        if len(value) > longest or not pattern.fullmatch(value):
            raise ValueError(allowed)
        return value

    return AfterValidator(check)


def _one_of(values: tuple[int, ...]) -> AfterValidator:
    def check(value: int) -> int:
        if value not in values:
            raise ValueError(f"one of {', '.join(map(str, values))}")
        return value

    return AfterValidator(check)


def _unique(values: list[Any]) -> list[Any]:
    if len(values) != len(set(values)):
        raise ValueError("each value once")
    return values


def _environment_key(value: str) -> str:
    if not _ENVIRONMENT_NAME.fullmatch(value) or value.startswith(("AWS_", "TIDEMILL_", "ECS_")):
        raise ValueError(
            "a name of letters, digits and _ that starts with no digit and not with AWS_, ECS_ or TIDEMILL_"
        )
    return value


Name = Annotated[
    str,
    _matching(
        _NAME, "1 to 32 lower-case letters, digits and single hyphens, starting with a letter, no hyphen last", 32
    ),
]
KmsKey = Annotated[str, _matching(re.compile(rf"create|{_KMS_KEY.pattern}"), "the ARN of a KMS key, or create")]
DataUri = Annotated[str, _matching(_DATA, "s3://bucket or s3://bucket/prefix/, without wildcards")]
AbsolutePath = Annotated[str, _matching(_ABSOLUTE, "an absolute path of plain names", 200)]
EnvironmentKey = Annotated[str, AfterValidator(_environment_key)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class NewNetwork(_Model):
    """A VPC that the stack makes."""

    zones: int = Field(
        default=3, ge=1, le=6, description="Availability zones, one subnet each. More zones, more Spot capacity."
    )
    egress: Literal["public", "nat", "endpoints"] = Field(
        default="public",
        description="How machines reach the world. `public`: own addresses, no way in; nothing idle. `nat`: one NAT "
        "gateway, about $33 a month idle. `endpoints`: no internet; 6 or more interface endpoints, each about $7 a "
        "month and zone idle.",
    )
    cidr: Annotated[
        str, _matching(re.compile(r"\d+\.\d+\.\d+\.\d+/(1[6-9]|20)"), "an IPv4 range such as 10.0.0.0/16, /16 to /20")
    ] = Field(default="10.0.0.0/16", description="Address range of the VPC; every zone gets a sixteenth of it.")


class ExistingNetwork(_Model):
    """A VPC that is there already. Its subnets must reach ECS, ECR, CloudWatch Logs and S3."""

    vpc_id: Annotated[str, _matching(re.compile(r"vpc-[0-9a-f]{8,17}"), "an id such as vpc-0123456789abcdef0")] = Field(
        description="The VPC."
    )
    subnet_ids: Annotated[
        list[Annotated[str, _matching(re.compile(r"subnet-[0-9a-f]{8,17}"), "an id such as subnet-0123456789abcdef0")]],
        AfterValidator(_unique),
    ] = Field(min_length=1, max_length=16, description="Subnets that machines start in.")


class Network(_Model):
    """Where machines run: a new VPC (default) or an existing one."""

    create: NewNetwork | None = Field(
        default=None, description="Make a VPC. Leave out together with `existing` for the default."
    )
    existing: ExistingNetwork | None = Field(default=None, description="Use a VPC that is there already.")


class Data(_Model):
    """Buckets other than the job store that this team's jobs may use."""

    read: Annotated[list[DataUri], AfterValidator(_unique)] = Field(default=[], description="What jobs may read.")
    write: Annotated[list[DataUri], AfterValidator(_unique)] = Field(
        default=[], description="What jobs may read and write."
    )
    kms_keys: Annotated[list[Annotated[str, _matching(_KMS_KEY, "the ARN of a KMS key")]], AfterValidator(_unique)] = (
        Field(default=[], description="KMS keys that those buckets are encrypted with.")
    )


class Store(_Model):
    """The job store: a bucket of the team's own."""

    expire_jobs_after_days: int | None = Field(
        default=None,
        ge=1,
        le=3650,
        description="Delete what is under jobs/ this many days after it was written. Leave out to keep it; results "
        "under out/ are never deleted.",
    )
    kms_key: KmsKey | None = Field(
        default=None,
        description="Encrypt with a KMS key instead of S3's own. `create` makes one, about $1 a month idle.",
    )
    versioning: bool = Field(
        default=False, description="Keep overwritten objects for 30 days; their storage is billed."
    )


class Registry(_Model):
    """The team's image repositories."""

    repositories: Annotated[list[Name], AfterValidator(_unique)] = Field(
        default=[], description="Repositories to make beside those that a queue's `registry://` images name."
    )
    keep_images: int = Field(
        default=100, ge=1, le=10_000, description="Images kept in each repository; older ones expire."
    )
    expire_untagged_after_days: int = Field(
        default=14, ge=1, le=3650, description="Days after which untagged images expire."
    )


class Logs(_Model):
    """The workers' log group."""

    retention_days: Annotated[int, _one_of(RETENTION_DAYS)] = Field(
        default=14, description="Days that log lines are kept; storage is billed by the GB and month."
    )
    kms_key: KmsKey | None = Field(
        default=None, description="Encrypt with a KMS key. `create` makes one, about $1 a month idle."
    )
    archive: Literal["bucket"] | None = Field(
        default=None,
        description="`bucket`: copy every line to the job store under logs/ through Firehose, billed by the GB.",
    )


class Access(_Model):
    """Who may submit."""

    submitters: Annotated[
        list[Annotated[str, _matching(_PRINCIPAL, "the ARN of an IAM user or role, or arn:aws:iam::<account>:root")]],
        AfterValidator(_unique),
    ] = Field(
        default=[], description="Principals that may assume a submitter role, which is made only if there are some."
    )


class Item(_Model):
    """What one item gets unless its job says otherwise."""

    cpus: int = Field(default=1, ge=1, le=192, description="vCPUs; Batch on EC2 knows whole ones only.")
    memory_mib: int = Field(
        default=2048, ge=64, le=4_194_304, description="Memory in MiB, the worker's own share included."
    )
    gpus: int = Field(default=0, ge=0, le=16, description="NVIDIA GPUs; leave out for none.")


class CpuRange(_Model):
    """Sizes of machines by vCPUs, both ends included."""

    min: int = Field(default=4, ge=1, le=192, description="vCPUs of the smallest machine.")
    max: int = Field(default=32, ge=1, le=192, description="vCPUs of the largest machine.")


class Machines(_Model):
    """Which machines a queue may start: every size in the range of every family; more types, more Spot capacity."""

    families: Annotated[list[str], AfterValidator(_unique)] = Field(
        default=["c7i", "c6i", "m7i", "m6i"],
        min_length=1,
        max_length=25,
        description="EC2 families of one architecture.",
    )
    cpus: CpuRange = Field(default=CpuRange(min=4, max=32), description="Size range in vCPUs.")


class Rung(_Model):
    """One step of the capacity ladder. A later rung is overflow: it opens as soon as the earlier cannot place a job."""

    market: Literal["spot", "on_demand"] = Field(
        default="spot", description="`on_demand` is never taken back and costs more."
    )
    max_cpus: int = Field(
        default=256, ge=1, le=100_000, description="vCPUs this rung may reach. Nothing runs while idle."
    )


class Mount(_Model):
    """Something that containers see as a folder; exactly one of `host`, `efs` and `s3` says what."""

    host: AbsolutePath | None = Field(default=None, description="A folder of the machine; made when it is not there.")
    efs: (
        Annotated[str, _matching(re.compile(r"fs-[0-9a-f]{8,40}"), "a file system id such as fs-0123456789abcdef0")]
        | None
    ) = Field(
        default=None, description="An EFS file system that is there already; its mount targets must admit the machines."
    )
    s3: DataUri | None = Field(
        default=None,
        description="A bucket or prefix, read-only, through Mountpoint for Amazon S3; name it in tidemill:data too.",
    )
    path: AbsolutePath = Field(description="Where the container sees it.")
    read_only: bool = Field(default=False, description="Refuse writes.")


class AwsQueueOptions(_Model):
    """What only AWS has."""

    placement_group: Literal["cluster", "spread"] | None = Field(
        default=None,
        description="Start machines close together (one zone, less Spot capacity) or on distinct hardware.",
    )


class Queue(_Model):
    """Where jobs wait, and the machines behind it. An idle queue has no machine and costs nothing."""

    images: dict[Name, str] = Field(
        min_length=1,
        max_length=20,
        description="Container images by the name that jobs give; `default` is used when they give none. Allowed are "
        "registry://name:tag and registry://name@sha256:... (the stack's registry), and any other reference by digest",
    )
    item: Item = Field(default=Item(), description="What one item gets unless its job says otherwise.")
    machines: Machines = Field(default=Machines(), description="Which machines the queue may start.")
    capacity: list[Rung] = Field(
        default=[Rung(market="spot", max_cpus=256)],
        min_length=1,
        max_length=3,
        description="Ladder of capacity, first rung first; Batch takes at most 3.",
    )
    scratch_gib: int = Field(
        default=100,
        ge=8,
        le=16_000,
        description="Scratch of a machine in GiB (gp3); its slots share it. Billed while it runs.",
    )
    secrets: dict[EnvironmentKey, str] = Field(
        default={}, max_length=40, description="Environment variables from Secrets Manager or SSM parameters, by ARN"
    )
    timeout_minutes: int | None = Field(
        default=None,
        ge=1,
        le=20_160,
        description="Longest run of one chunk on a machine. Leave out for no limit; items have their own.",
    )
    shared_memory_mib: int | None = Field(
        default=None, ge=1, le=1_048_576, description="Size of /dev/shm in MiB. Leave out for Docker's 64."
    )
    ulimits: dict[str, int] = Field(
        default={}, description="Limits by name, such as nofile; soft and hard are the same."
    )
    mounts: dict[Name, Mount] = Field(
        default={}, max_length=10, description="Folders, EFS file systems and buckets to mount."
    )
    stuck_after_minutes: int = Field(
        default=240,
        ge=30,
        le=1440,
        description="Cancel a job that no machine of the queue can ever run after this many minutes at the queue's "
        "head. Waiting for Spot capacity is never cancelled.",
    )
    aws: AwsQueueOptions = Field(default=AwsQueueOptions(), description="What only AWS has.")


class StackConfig(_Model):
    """The keys ``tidemill:<field>`` of a stack file."""

    team: Name = Field(description="The team that owns the pipeline: the trust boundary, and a tag on everything.")
    environment: Name = Field(description="Which of the team's pipelines this is: dev, prod.")
    cloud: Literal["aws"] = Field(default="aws", description="The cloud that the pipeline is on.")
    network: Network = Field(default=Network(), description="Where machines run.")
    data: Data = Field(default=Data(), description="Buckets that jobs may use beside the job store.")
    store: Store = Field(default=Store(), description="The job store.")
    registry: Registry = Field(default=Registry(), description="The team's image repositories.")
    logs: Logs = Field(default=Logs(), description="The workers' log group.")
    worker_image: str | None = Field(
        default=None,
        description="The worker's image by digest, as `make worker PUSH=REGISTRY` prints it; it runs beside every "
        "image of the queues. Leave out when the images bring `tidemill` themselves.",
    )
    queues: dict[Name, Queue] = Field(
        min_length=1, max_length=20, description="The queues, by the name that users type."
    )
    access: Access = Field(default=Access(), description="Who may submit.")
    permission_boundary: Annotated[str, _matching(_POLICY, "the ARN of an IAM policy")] | None = Field(
        default=None, description="IAM policy that bounds every role of the stack."
    )
    allow: Annotated[list[Literal["replace", "purge"]], AfterValidator(_unique)] = Field(
        default=[],
        description="`replace` lifts protection from compute environments; `purge` from everything, and lets destroy "
        "empty the buckets and registries.",
    )

    @property
    def may_replace(self) -> bool:
        """Whether compute environments may be replaced or deleted."""
        return bool(self.allow)

    @property
    def may_purge(self) -> bool:
        """Whether buckets and registries may be deleted, with what is in them."""
        return "purge" in self.allow
