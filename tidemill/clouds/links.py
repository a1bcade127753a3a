"""Addresses in the clouds' consoles, from the descriptor alone: no request, and no login of ours is in them.

Neither cloud documents its consoles' addresses. They are what the consoles themselves show in the address bar, read
2026-11 in other people's programs; a queue, a log or a bucket is one click away where a console has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from tidemill import clouds
from tidemill.descriptor import Descriptor
from tidemill.job import JobSpec


@dataclass(frozen=True)
class Links:
    """Where a job's parts are in the cloud's console.

    Attributes:
        queue: The job queue of AWS Batch, or the subscription that workers pull from; None where the pipeline no longer
            has the queue.
        log: The job's lines, with the query filled in; None where the descriptor names no log.
        store: The job's records.
        outputs: What items write.
    """

    queue: str | None
    log: str | None
    store: str
    outputs: str


def console_links(descriptor: Descriptor, spec: JobSpec, until: datetime) -> Links | None:
    """Links to a job's places in the console of its cloud; None where there is no cloud.

    Args:
        descriptor: The job's pipeline.
        spec: The job.
        until: When its last line was printed, at the latest.
    """
    cloud = clouds.find(descriptor.cloud)
    return cloud.part("links").console_links(descriptor, spec, until) if cloud and cloud.login else None


def split_uri(uri: str) -> tuple[str, str]:
    """A bucket, and a prefix that ends like a folder."""
    parts = urlsplit(uri)
    return parts.netloc, f"{parts.path.strip('/')}/"


def utc(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
