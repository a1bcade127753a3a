"""Addresses in the console of AWS."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from tidemill import layout
from tidemill.clouds.links import Links, split_uri, utc
from tidemill.descriptor import Descriptor
from tidemill.job import JobSpec

_AWS = {"aws": "console.aws.amazon.com", "aws-cn": "console.amazonaws.cn", "aws-us-gov": "console.amazonaws-us-gov.com"}
"""Host of a partition's console, without the region."""
_SAFE = re.compile(r"[^A-Za-z0-9_.-]")


def console_links(descriptor: Descriptor, spec: JobSpec, until: datetime) -> Links:
    """Links to a job's places."""
    places = f"{descriptor.store}/{layout.JOBS}/{spec.job}", spec.output_prefix(descriptor.store)
    queue, group = descriptor.queues.get(spec.queue), descriptor.log_group
    aws = queue.aws if queue else None
    arn = aws and (aws.markets.get(spec.market) if spec.market else aws.job_queue)
    console = _Aws(arn.split(":")[1] if arn else "aws", descriptor.region)
    shown = console.home("batch", f"queues/detail/{arn}") if arn else None
    return Links(shown, group and console.log(group, spec, until), *map(console.objects, places))


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
        bucket, prefix = split_uri(uri)
        return f"{self.host}/s3/buckets/{bucket}?region={self.region}&prefix={quote(prefix)}&showversions=false"

    def log(self, group: str, spec: JobSpec, until: datetime) -> str:
        """Logs Insights with a query: parts are joined by `~`, and `'` begins a text."""
        query = (
            f"fields @timestamp, item, stream, message\n| filter job = {json.dumps(spec.job)}\n"
            "| sort @timestamp asc\n| limit 10000"
        )
        times = f"end~'{_starred(utc(until))}~start~'{_starred(utc(spec.created_at))}~timeType~'ABSOLUTE~tz~'UTC"
        detail = f"~({times}~editorString~'{_starred(query)}~source~(~'{_starred(group)}))"
        return self.home("cloudwatch", f"logsV2:logs-insights$3FqueryDetail$3D{detail}")


def _starred(text: str) -> str:
    """A text as CloudWatch's console writes it into its address: `*20` for a space."""
    return _SAFE.sub(lambda match: "".join(f"*{byte:02x}" for byte in match[0].encode()), text)
