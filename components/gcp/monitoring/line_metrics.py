"""The metrics that Cloud Logging counts in the workers' lines, and the conditions of alert policies.

Conditions are in PromQL: each is true where it has a result. A metric of lines has no series before its first line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pulumi
import pulumi_gcp as gcp

RESOURCE = "generic_node"
"""The monitored resource of the workers' entries (`tidemill/worker/cloud_log.py`)."""

FEWEST_ITEMS = 20
"""Items of 15 minutes from which a share of failed ones says something."""
FEWEST_CHUNKS = 60
"""Chunks of three hours from which a share of reclaims says something."""
MINUTES = 15
RECLAIM_MINUTES = 180
RUNS = "cloud_run_revision"
"""The monitored resource of the reconciler's lines."""
MOST_OF = 0.9
"""The share of the reconciler's looks that must agree: some runs are late or missing."""
BACKLOG = "pubsub_googleapis_com:subscription_num_undelivered_messages"


@dataclass(frozen=True)
class LineMetric:
    """A metric: the events that count, and the field that they count for; None counts events."""

    described: str
    event: str
    field: str | None = None
    unit: str = "1"


COUNTED = {
    "items": LineMetric("Items of complete chunks", "chunk", "items"),
    "chunk-failures": LineMetric("Failed items of complete chunks", "chunk", "failed"),
    "reclaims": LineMetric("Workers whose machine was taken back", "reclaim"),
    "first-items": LineMetric("Wait of jobs for their first item", "first_item", "waited_ms", "ms"),
    "worker-errors": LineMetric("Workers that failed", "worker_error"),
}
"""By the suffix of the metric's name. Chunks count when their record stands, each once, as on AWS."""


def metrics(name: str, lines: pulumi.Input[str], opts: pulumi.ResourceOptions) -> dict[str, pulumi.Output[str]]:
    """Log-based metrics of the lines that a filter selects, by queue; their names by suffix.

    A sum needs a distribution: a counter counts entries alone. A distribution needs buckets; only its sum is read.
    Sources: https://cloud.google.com/logging/docs/logs-based-metrics/distribution-metrics,
    https://cloud.google.com/logging/docs/reference/v2/rest/v2/projects.metrics (bucketOptions)
    """
    return {
        suffix: gcp.logging.Metric(
            f"{name}-{suffix}",
            description=each.described,
            filter=pulumi.Output.concat(lines, f' AND jsonPayload.event = "{each.event}"'),
            value_extractor=f"EXTRACT(jsonPayload.{each.field})" if each.field else None,
            bucket_options=_buckets() if each.field else None,
            label_extractors={"queue": "EXTRACT(jsonPayload.queue)"},
            metric_descriptor=gcp.logging.MetricMetricDescriptorArgs(
                metric_kind="DELTA",
                value_type="DISTRIBUTION" if each.field else "INT64",
                unit=each.unit,
                labels=[gcp.logging.MetricMetricDescriptorLabelArgs(key="queue", value_type="STRING")],
            ),
            opts=opts,
        ).name
        for suffix, each in COUNTED.items()
    }


def _buckets() -> gcp.logging.MetricBucketOptionsArgs:
    """Google's own default buckets for log-based metrics."""
    return gcp.logging.MetricBucketOptionsArgs(
        exponential_buckets=gcp.logging.MetricBucketOptionsExponentialBucketsArgs(
            num_finite_buckets=64, growth_factor=2, scale=0.01
        )
    )


def in_promql(name: str) -> str:
    """A log-based metric's name in PromQL.

    Source: https://cloud.google.com/monitoring/promql/promql-mapping
    """
    return f"logging_googleapis_com:user_{re.sub(r'[^a-zA-Z0-9_]', '_', name)}"


def increase(name: str, suffix: str, minutes: int, *, lines: bool = False) -> str:
    """The increase of a metric within some minutes, by queue, in PromQL; `lines` counts lines, whatever their field."""
    of = ("_count" if lines else "_sum") if COUNTED[suffix].field else ""
    return _by_queue(f"{in_promql(name)}{of}", RESOURCE, minutes)


def _by_queue(series: str, resource: str, minutes: int, queue: str | None = None) -> str:
    """The increase of a series within some minutes, by queue or of one, in PromQL."""
    only = f',queue="{queue}"' if queue else ""
    return f'sum by (queue) (increase({series}{{monitored_resource="{resource}"{only}}}[{minutes}m]))'


def silent_query(runs: str) -> str:
    """The reconciler's runs, by the name of their metric, are absent."""
    return f'absent_over_time({in_promql(runs)}{{monitored_resource="{RUNS}"}}[{MINUTES}m])'


def failed_query(names: Mapping[str, str], percent: int) -> str:
    """Queues where more than so many percent of the items failed."""
    items = increase(names["items"], "items", MINUTES)
    failures = increase(names["chunk-failures"], "chunk-failures", MINUTES)
    return f"(100 * {failures} / {items} > {percent}) and ({items} >= {FEWEST_ITEMS})"


def reclaimed_query(names: Mapping[str, str], percent: int) -> str:
    """Queues where more than so many percent of the chunks lost their machine for three hours."""
    lost = increase(names["reclaims"], "reclaims", RECLAIM_MINUTES)
    ended = increase(names["items"], "items", RECLAIM_MINUTES, lines=True)
    tried = f"({lost} + ({ended} or 0 * {lost}))"
    return f"(100 * {lost} / {tried} > {percent}) and ({tried} >= {FEWEST_CHUNKS})"


def full_query(looks: str, subscriptions: Mapping[str, str], hours: int, period_minutes: int) -> str:
    """Queues that have been at their cap in most looks of the last hours, and whose backlog is no smaller than at half
    of them. A job that takes all night at the cap by intent only shrinks.

    Args:
        looks: The metric that counts looks at the cap.
        subscriptions: The short names, by queue.
    """
    least = int(MOST_OF * hours * 60 / period_minutes)
    return " or ".join(
        f"({_by_queue(in_promql(looks), RUNS, hours * 60, queue)} >= {least}) and on () ({backlog} - {backlog} offset "
        f"{hours * 30}m >= 0)"
        for queue, subscription in sorted(subscriptions.items())
        for backlog in [f'{BACKLOG}{{monitored_resource="pubsub_subscription",subscription_id="{subscription}"}}']
    )


def growing_query(subscriptions: Sequence[str], hours: int) -> str:
    """Subscriptions whose backlog is larger at each of the last hours than an hour before."""
    wanted = "|".join(sorted(subscriptions))
    backlog = f'{BACKLOG}{{monitored_resource="pubsub_subscription",subscription_id=~"{wanted}"}}'
    then = [backlog, *(f"{backlog} offset {hour}h" for hour in range(1, hours + 1))]
    return " and ".join(f"({later} - {before} > 0)" for later, before in pairwise(then))
