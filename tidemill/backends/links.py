"""Addresses in the clouds' consoles, from the descriptor alone: no request, and no login of ours is in them.

Neither cloud documents its consoles' addresses. They are what the consoles themselves show in the address bar, read
2026-11 in other people's programs; a queue, a log or a bucket is one click away where a console has changed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, urlsplit

from tidemill import layout
from tidemill.descriptor import Descriptor
from tidemill.job import JobSpec

_AWS = {"aws": "console.aws.amazon.com", "aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}
"""Host of a partition's console, without the region."""
_GCP = "https://console.cloud.google.com"
_SAFE = re.compile(r"[^A-Za-z0-9_.-]")


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
    """A job's places in the console of its cloud; None where there is no cloud.

    Args:
        descriptor: The job's pipeline.
        spec: The job.
        until: When its last line was printed, at the latest.
    """
    places = f"{descriptor.store}/{layout.JOBS}/{spec.job}", spec.output_prefix(descriptor.store)
    queue, group = descriptor.queues.get(spec.queue), descriptor.log_group
    if descriptor.cloud == "aws":
        arn = queue.aws.job_queue if queue and queue.aws else None
        console = _Aws(arn.split(":")[1] if arn else "aws", descriptor.region)
        shown = console.home("batch", f"queues/detail/{arn}") if arn else None
        return Links(shown, group and console.log(group, spec, until), *map(console.objects, places))
    if descriptor.cloud == "gcp":
        project = descriptor.account
        pulled = queue.gcp.subscription.rpartition("/")[2] if queue and queue.gcp else None
        shown = f"{_GCP}/cloudpubsub/subscription/detail/{pulled}?project={project}" if pulled else None
        return Links(shown, group and _gcp_log(group, spec, project), *(_gcp_objects(each, project) for each in places))
    return None


@dataclass(frozen=True)
class _Aws:
    partition: str
    region: str

    @property
    def host(self) -> str:
        return f"https://{self.region}.{_AWS.get(self.partition, _AWS['aws'])}"

    def home(self, service: str, place: str) -> str:
        return f"{self.host}/{service}/home?region={self.region}#{place}"

    def objects(self, uri: str) -> str:
        bucket, prefix = _split(uri)
        return f"{self.host}/s3/buckets/{bucket}?region={self.region}&prefix={quote(prefix)}&showversions=false"

    def log(self, group: str, spec: JobSpec, until: datetime) -> str:
        """Logs Insights with a query: parts are joined by `~`, and `'` begins a text."""
        query = (
            f"fields @timestamp, item, stream, message\n| filter job = {json.dumps(spec.job)}\n"
            "| sort @timestamp asc\n| limit 10000"
        )
        times = f"end~'{_starred(_utc(until))}~start~'{_starred(_utc(spec.created_at))}~timeType~'ABSOLUTE~tz~'UTC"
        detail = f"~({times}~editorString~'{_starred(query)}~source~(~'{_starred(group)}))"
        return self.home("cloudwatch", f"logsV2:logs-insights$3FqueryDetail$3D{detail}")


def _gcp_log(bucket: str, spec: JobSpec, project: str) -> str:
    """Logs Explorer: a time in the query takes the place of the range that it would show else."""
    query = f'jsonPayload.job="{spec.job}"\ntimestamp>="{_utc(spec.created_at)}"'
    scope = f"storageScope=storage,{quote(f'{bucket}/views/_AllLogs', safe='')}"
    return f"{_GCP}/logs/query;query={quote(query, safe='')};{scope}?project={project}"


def _gcp_objects(uri: str, project: str) -> str:
    bucket, prefix = _split(uri)
    return f"{_GCP}/storage/browser/{bucket}/{quote(prefix)}?project={project}"


def _split(uri: str) -> tuple[str, str]:
    """A bucket, and a prefix that ends like a folder."""
    parts = urlsplit(uri)
    return parts.netloc, f"{parts.path.strip('/')}/"


def _starred(text: str) -> str:
    """A text as CloudWatch's console writes it into its address: `*20` for a space."""
    return _SAFE.sub(lambda found: "".join(f"*{byte:02x}" for byte in found[0].encode()), text)


def _utc(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
