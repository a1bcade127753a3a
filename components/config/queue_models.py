"""A queue of a stack's config as plain data: every key with its default, range, description and idle cost.

Rules that need more than one key, or that only one cloud has, are in ``checks/``.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ..machines import SYSTEM_GIB, MachineType
from ..rooms import queue_room
from .access_models import PerJob
from .later import SecretFromResource, Text
from .model import Model
from .mount_models import Mount
from .types import (
    AMI,
    AWS_RESERVATION,
    FUSE_IMAGE,
    GCP_IMAGE,
    GCP_RESERVATION,
    EnvironmentKey,
    Name,
    Zone,
    either,
    matching,
    unique,
)

MOST_CPUS = 1920
"""vCPUs of the largest machines in the tables."""


_SECRET = SecretFromResource(
    re.compile(r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[\w/+=.@-]+(:[^:\s]*){0,3}"),
    "the ARN of a secret of Secrets Manager",
    2048,
    "queues.secrets",
)
"""Outputs are of Secrets Manager: what their grant is must be known before their value."""


class Item(Model):
    """Resources of one item, unless its job asks for others."""

    cpus: int = Field(default=1, ge=1, le=MOST_CPUS, description="vCPUs; Batch on EC2 accepts only whole numbers.")
    memory_mib: int = Field(
        default=2048, ge=64, le=33_554_432, description="Memory in MiB, including the worker's own share."
    )
    gpus: int = Field(default=0, ge=0, le=16, description="NVIDIA GPUs; leave out for none.")


class CpuRange(Model):
    """Sizes of machines by vCPUs, both ends included."""

    min: int = Field(default=4, ge=1, le=MOST_CPUS, description="vCPUs of the smallest machine.")
    max: int = Field(default=32, ge=1, le=MOST_CPUS, description="vCPUs of the largest machine.")


def _one_size(value: Any) -> Any:
    """``16`` means ``{min: 16, max: 16}``."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= MOST_CPUS:
            raise ValueError(f"a number of vCPUs from 1 to {MOST_CPUS}, or a range {{min, max}} on AWS")
        return {"min": value, "max": value}
    return value


_OneSize = Annotated[int, Field(ge=1, le=MOST_CPUS)]


class Machines(Model):
    """Which machines a queue may start; more families mean more Spot capacity.

    AWS: every size in the range of every family. GCP: one size of every family.
    """

    families: Annotated[list[str], unique] = Field(
        default=["c7i", "c6i", "m7i", "m6i"],
        min_length=1,
        max_length=25,
        description="EC2 families on AWS, all with x86_64 processors or all with arm64 (such as c7g and m7g); on GCP "
        "n2, n2d, c3d (its default) and others, the preferred one first. docs/families.md lists what accelerators "
        "need.",
    )
    cpus: Annotated[CpuRange, BeforeValidator(_one_size, json_schema_input_type=CpuRange | _OneSize)] = Field(
        default=CpuRange(min=4, max=32),
        description="Size in vCPUs: a range {min, max} on AWS; one size on GCP, such as 16 (its default), because "
        "its autoscaler counts machines.",
    )
    exclude: Annotated[list[str], unique] = Field(
        default=[],
        max_length=100,
        description="Types of these families and sizes that the queue never starts, such as c6i.4xlarge; on GCP "
        "such as n2-highmem-16, and the family's next type of that size takes its place.",
        examples=[["c6i.4xlarge"]],
    )
    zones: Annotated[list[Zone], unique] = Field(
        default=[],
        max_length=16,
        description="Zones of the region to start machines in, by letter or name; leave out for all of the network's, "
        "which gives the most Spot capacity. A change on AWS is in place, like one of families. On GCP a group keeps "
        "its zones: a change replaces it, which needs `allow: [replace]` and ends its machines, and to go back to "
        "all zones, name them.",
        examples=[["a", "c"]],
    )
    image: (
        Annotated[
            str,
            either(
                AMI,
                GCP_IMAGE,
                "an id such as ami-0123456789abcdef0, on GCP projects/<project>/global/images/<image> or "
                ".../images/family/<family>",
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="A machine image of your own, which you keep up to date. Leave out for the newest one of the cloud "
        "(AWS: Batch's, Amazon Linux 2023; GCP: Container-Optimized OS). AWS: made from Batch's, with the ECS agent, "
        "cloud-init, Python 3 and the root device /dev/xvda. GCP: made from Container-Optimized OS, and this project's "
        "Google APIs service agent may use it (roles/compute.imageUser in its project). docs/troubleshooting.md has "
        "what goes wrong.",
    )

    @property
    def size(self) -> int:
        """vCPUs of each machine of a GCP queue."""
        return self.cpus.max


class Rung(Model):
    """One step of the capacity ladder. A later rung is overflow.

    AWS: Batch opens it when the earlier ones are at their `max_cpus`, or have no capacity. GCP: it opens only when Spot
    has run dry, and closes again.
    """

    market: Literal["spot", "on_demand"] = Field(
        default="spot", description="`on_demand` is never reclaimed and costs more."
    )
    max_cpus: int = Field(
        default=256, ge=1, le=100_000, description="vCPUs this rung may reach. Nothing runs while idle."
    )
    name: Name | None = Field(
        default=None,
        description="AWS only. Tells a rung from another of its market, which it follows or is followed by; see "
        "docs/upgrading.md.",
    )
    drain: bool = Field(
        default=False,
        description="AWS only. Jobs on this rung continue, no new ones start, and its machines stay as they are; "
        "for a rung that another one replaces. Remove it from the file when it is empty, and for a new "
        "stack.",
    )
    max_price_percent: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="AWS only, for Spot. The most to pay, in percent of each type's On-Demand price; dearer types are "
        "not started. Below 100 it costs capacity and brings more reclaims. Leave out for no cap of your own, and set "
        "100, Batch's default, to lift one.",
    )
    reservation: (
        Annotated[
            str,
            either(
                AWS_RESERVATION,
                GCP_RESERVATION,
                "cr-0123456789abcdef0 or the ARN of a resource group; on GCP a name, or "
                "projects/<project>/reservations/<name>",
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="For On-Demand: start machines only in this capacity reservation, billed to its owner whether "
        "used or not. AWS: a Capacity Reservation or a resource group of some, of the queue's types and zones. GCP: a "
        "reservation by name, or one that another project shares; the queue has one family, and machines.zones the "
        "reservation's zone. Not yet tried in an account: whether a full group of AWS starts On-Demand machines after "
        "all (docs/first-account.md).",
    )
    block: bool = Field(
        default=False,
        description="AWS only. The reservation is a Capacity Block for ML, of one type and zone: machines start in it "
        "while it lasts, and EC2 ends them 30 minutes before its end. Paid for in advance.",
    )


class AwsQueueOptions(Model):
    """Options that exist on AWS alone."""

    placement_group: Literal["cluster", "spread"] | None = Field(
        default=None,
        description="Start machines close together (one zone, less Spot capacity) or on distinct hardware.",
    )


class GcpQueueOptions(Model):
    """Options that exist on GCP alone."""

    idle_minutes: int = Field(
        default=10,
        ge=5,
        le=120,
        description="Minutes without work after which a machine stops; each is billed. Fewer than 5 are refused: the "
        "autoscaler's backlog metric is up to 4 minutes old, and it would restart machines that have just stopped.",
    )
    min_machines: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="Machines of the first rung that stay without work, billed like busy ones. Leave out for none: "
        "the first item then waits for the metric (1 to 4 minutes) and a boot.",
    )
    scale_in: Literal["idle", "autoscaler"] = Field(
        default="idle",
        description="What stops machines. `idle`: each stops when it has no work; no busy machine is stopped. "
        "`autoscaler`: the autoscaler removes machines as the backlog shrinks, busy ones too; their chunks run again. "
        "For items of seconds that may run twice.",
    )
    max_age_hours: int = Field(
        default=168,
        ge=24,
        le=2880,
        description="Age at which a machine powers itself off if it has not stopped earlier. Workers take no chunk "
        "that could outlast it, so set it far above the longest item.",
    )
    extra_disk_gib: int | None = Field(
        default=None,
        ge=10,
        le=65_536,
        description="Size of a second disk at /mnt/disks/extra, for mounts with host. Billed while the machine runs. "
        "Leave out for none.",
    )
    fuse_image: Annotated[str, matching(FUSE_IMAGE, "an image by digest")] | None = Field(
        default=None,
        description="Image with gcsfuse, by digest, such as Debian with that package; machines use it for gcs mounts. "
        "Container-Optimized OS has none.",
    )


class Queue(Model):
    """A queue of jobs and its machines. An idle queue has no machines and costs nothing."""

    images: dict[Name, str] = Field(
        min_length=1,
        max_length=20,
        description="Container images by the name that jobs give; `default` is used when they give none, and is the "
        "only one on GCP. Allowed are registry://name:tag and registry://name@sha256:... (the stack's registry), "
        "the same with shared:// (the registry of tidemill:registry's shared stack), and any other reference by digest",
    )
    item: Item = Field(default=Item(), description="Resources of one item, unless its job asks for others.")
    machines: Machines = Field(default=Machines(), description="Which machines the queue may start.")
    capacity: list[Rung] = Field(
        default=[Rung(market="spot", max_cpus=256)],
        min_length=1,
        max_length=3,
        description="Ladder of capacity, first rung first; Batch allows at most 3. GCP: Spot, On-Demand, or Spot and "
        "then On-Demand.",
        examples=[[{"market": "spot", "max_cpus": 256}]],
    )
    scratch_gib: int = Field(
        default=100,
        ge=8,
        le=16_000,
        description="Scratch disk of a machine in GiB (gp3; a balanced disk on GCP), shared by its slots. Billed while "
        "on.",
    )
    scratch: Literal["disk", "local"] = Field(
        default="disk",
        description="`local`: scratch and cache on the machines' own NVMe disks, which are faster and part of a "
        "machine's price. Every type must have scratch_gib of them (AWS: c7gd, m6id, i4i and most GPU families; GCP: "
        "the -lssd types of c3, c3d, c4, c4a, c4d, and all of a2-ultra, a3, a4, z3).",
    )
    secrets: dict[EnvironmentKey, Annotated[Text, _SECRET]] = Field(
        default={},
        max_length=40,
        description="Environment variables from Secrets Manager or SSM parameters, by ARN; on GCP from Secret Manager, "
        "projects/p/secrets/s with or without /versions/n",
        examples=[
            {"HF_TOKEN": "arn:aws:secretsmanager:us-west-2:123456789012:secret:hf-token-AbCdEf"},
            {"HF_TOKEN": "projects/vision-dev/secrets/hf-token"},
        ],
    )
    timeout_minutes: int | None = Field(
        default=None,
        ge=1,
        le=20_160,
        description="AWS only. Longest run of one chunk on a machine. Leave out for no limit; items have their own.",
        examples=[720],
    )
    shared_memory_mib: int | None = Field(
        default=None,
        ge=1,
        le=1_048_576,
        description="Size of /dev/shm in MiB. Leave out for Docker's 64.",
        examples=[1024],
    )
    ulimits: dict[str, int] = Field(
        default={},
        description="Limits by name, such as nofile; soft and hard are the same.",
        examples=[{"nofile": 65536}],
    )
    mounts: dict[Name, Mount] = Field(
        default={},
        max_length=10,
        description="Folders, shared file systems and buckets to mount.",
        examples=[{"models": {"host": "/mnt/disks/models", "path": "/mnt/models"}}],
    )
    stuck_after_minutes: int = Field(
        default=240,
        ge=30,
        le=1440,
        description="AWS only. Cancel a job that no machine of the queue can ever run after this many minutes at the "
        "queue's head. Waiting for Spot capacity is never cancelled.",
    )
    aws: AwsQueueOptions = Field(
        default=AwsQueueOptions(), description="Keys only for AWS.", examples=[{"placement_group": "spread"}]
    )
    gcp: GcpQueueOptions = Field(default=GcpQueueOptions(), description="Keys only for GCP.")
    per_job: PerJob = Field(default=PerJob(), description="AWS only. What a job may choose.")
    service: Name | None = Field(
        default=None,
        description="How chunks reach its machines. Leave out for the cloud's own service: batch on AWS, pubsub on "
        "GCP; docs/services.md says how a package adds another.",
        examples=["batch"],
    )
    options: dict[str, Any] = Field(default={}, description="Keys of a service that a package adds, which checks them.")

    def types(self, cloud: str) -> list[MachineType]:
        return queue_room(cloud, self, "keys").types(self)

    def architectures(self, cloud: str) -> list[str]:
        """Of the types' processors: `x86_64`, `arm64`, or both on GCP."""
        return sorted({machine.architecture for machine in self.types(cloud)}, reverse=True)

    @property
    def disk_gib(self) -> int:
        """Size of a machine's network disk in GiB."""
        return SYSTEM_GIB + (0 if self.scratch == "local" else self.scratch_gib)

    @property
    def open_rungs(self) -> list[Rung]:
        """The rungs that jobs are placed on."""
        return [rung for rung in self.capacity if not rung.drain]
