"""File systems that a stack makes, as plain data."""

from typing import Literal

from pydantic import Field

from .later import FileSystemKey
from .model import Model
from .types import Zone


class FileSystem(Model):
    """A file system that the stack makes and that queues mount by its name: EFS on AWS, Filestore on GCP.

    It is paid between jobs as well, and any job may change or delete what it holds.
    """

    throughput: Literal["elastic", "bursting"] = Field(
        default="elastic",
        description="AWS: `elastic` is as fast as jobs need and bills every GiB that they read or write; `bursting` "
        "bills storage alone and is slow while the file system holds little.",
    )
    infrequent_after_days: Literal[1, 7, 14, 30, 60, 90, 180, 270, 365] | None = Field(
        default=None,
        description="AWS: move a file that nothing has read for this many days to a storage class that costs less per "
        "month and more per read; a read brings it back. Leave out to move none.",
    )
    backup: bool = Field(
        default=False,
        description="AWS: keep daily backups for 35 days (AWS Backup), billed per GiB and month.",
    )
    kms_key: FileSystemKey | None = Field(
        default=None,
        description="Encrypt with a KMS key instead of the cloud's own. `create` makes one, about $1 per month idle "
        "(GCP: about $0.06 per version, tiers `zonal` and `regional` only). Only a new file system takes a key: with "
        "another one it would be replaced, which its protection stops.",
    )
    tier: Literal["basic_hdd", "basic_ssd", "zonal", "regional"] | None = Field(
        default=None,
        description="GCP: Filestore's service tier. `regional` outlives the loss of a zone; only `zonal` and "
        "`regional` can shrink.",
    )
    size_gib: int | None = Field(
        default=None,
        ge=100,
        le=102_400,
        description="GCP: size in GiB, billed in full whatever it holds. Leave out for the tier's smallest. It can "
        "grow in place.",
    )
    zone: Zone | None = Field(
        default=None,
        description="GCP: the zone of a tier other than `regional`, by letter or name. Machines of other zones mount "
        "it too, and pay for traffic between zones.",
    )
