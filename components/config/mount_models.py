"""Folders, file systems and buckets in a queue's containers."""

import re
from typing import Annotated

from pydantic import Field

from .later import Text, from_resource
from .model import Model
from .types import FILESTORE, AbsolutePath, GsUri, Name, S3Uri


class Mount(Model):
    """A folder in containers; exactly one key names its source: `file_system`, `host`, `efs`, `s3`, `gcs`,
    `filestore`.
    """

    file_system: Name | None = Field(default=None, description="A file system of tidemill:file_systems, by its name.")
    host: AbsolutePath | None = Field(
        default=None,
        description="A folder of the machine, created if missing, below /mnt or /data, on GCP below /mnt/disks. Others "
        "may be the machine's own: with /run or /opt a job would be root there.",
    )
    efs: (
        Annotated[
            Text,
            from_resource(
                re.compile(r"fs-[0-9a-f]{8,40}"), "a file system id such as fs-0123456789abcdef0", "queues.mounts.efs"
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="AWS: an existing EFS file system; its mount targets must admit the machines.",
    )
    s3: S3Uri | None = Field(
        default=None,
        description="AWS: a bucket or prefix, read-only, through Mountpoint for Amazon S3; name it in tidemill:data "
        "too.",
    )
    gcs: GsUri | None = Field(
        default=None,
        description="GCP: a bucket or prefix through Cloud Storage FUSE; name it in tidemill:data too, under write "
        "unless read_only is set.",
    )
    filestore: (
        Annotated[
            Text, from_resource(FILESTORE, "an address and a share, such as 10.0.0.2:/vol", "queues.mounts.filestore")
        ]
        | None
    ) = Field(
        default=None,
        description="GCP: address and share of an existing Filestore instance, in the machines' network.",
    )
    path: AbsolutePath = Field(description="The folder's path in the container.")
    read_only: bool = Field(default=False, description="Refuse writes.")

    @property
    def bucket(self) -> str | None:
        """URI of the bucket or prefix; None for another kind of mount."""
        return self.s3 or self.gcs
