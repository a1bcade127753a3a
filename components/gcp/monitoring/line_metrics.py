"""The metrics that Cloud Logging counts in the workers' lines."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

RESOURCE = "generic_node"
"""The monitored resource of the workers' entries (`tidemill/worker/cloud_log.py`)."""


@dataclass(frozen=True)
class LineMetric:
    """A metric: the events that count, and the field that they count for; None counts events."""

    described: str
    event: str
    field: str | None = None


COUNTED = {
    "items": LineMetric("Items of complete chunks", "chunk", "items"),
    "chunk-failures": LineMetric("Failed items of complete chunks", "chunk", "failed"),
    "reclaims": LineMetric("Workers whose machine was taken back", "reclaim"),
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
                unit="1",
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


def increase(name: str, suffix: str, minutes: int) -> str:
    """The increase of a metric within some minutes, by queue, in PromQL."""
    series = in_promql(name) + ("_sum" if COUNTED[suffix].field else "")
    return f'sum by (queue) (increase({series}{{monitored_resource="{RESOURCE}"}}[{minutes}m]))'
