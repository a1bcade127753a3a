"""Keys of what machines and queues keep, as plain data."""

from pydantic import Field

from .later import DisksKey, TopicsKey
from .model import Model


class Disks(Model):
    """The machines' disks."""

    kms_key: DisksKey | None = Field(
        default=None,
        description="Encrypt machines' volumes with a KMS key instead of the cloud's own; local disks are encrypted by "
        "their hardware. `create` makes one, about $1 per month idle (GCP: about $0.06 per version). No machine starts "
        "with a key of your own unless it admits, on AWS the service-linked roles that start machines, on GCP Compute "
        "Engine's service agent (docs/networks.md).",
    )


class Topics(Model):
    """The topics of queues on GCP; on AWS what waits is in Batch itself, encrypted by AWS."""

    kms_key: TopicsKey | None = Field(
        default=None,
        description="GCP: encrypt messages with a KMS key instead of Google's own. `create` makes one, about $0.06 per "
        "version and month idle. A key of your own must admit Pub/Sub's service agent. Imported topics keep theirs.",
    )
