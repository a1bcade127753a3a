"""Addresses in the console of Google Cloud."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

from tidemill import layout
from tidemill.clouds.links import Links, split_uri, utc
from tidemill.descriptor import Descriptor
from tidemill.job import JobSpec

_GCP = "https://console.cloud.google.com"


def console_links(descriptor: Descriptor, spec: JobSpec, until: datetime) -> Links:
    """Links to a job's places."""
    places = f"{descriptor.store}/{layout.JOBS}/{spec.job}", spec.output_prefix(descriptor.store)
    queue, group = descriptor.queues.get(spec.queue), descriptor.log_group
    project = descriptor.account
    pulled = queue.gcp.subscription.rpartition("/")[2] if queue and queue.gcp else None
    shown = f"{_GCP}/cloudpubsub/subscription/detail/{pulled}?project={project}" if pulled else None
    return Links(shown, group and _log(group, spec, project), *(_objects(place, project) for place in places))


def _log(bucket: str, spec: JobSpec, project: str) -> str:
    """Logs Explorer: a time in the query takes the place of the range that it would show else."""
    query = f'jsonPayload.job="{spec.job}"\ntimestamp>="{utc(spec.created_at)}"'
    scope = f"storageScope=storage,{quote(f'{bucket}/views/_AllLogs', safe='')}"
    return f"{_GCP}/logs/query;query={quote(query, safe='')};{scope}?project={project}"


def _objects(uri: str, project: str) -> str:
    bucket, prefix = split_uri(uri)
    return f"{_GCP}/storage/browser/{bucket}/{quote(prefix)}?project={project}"
