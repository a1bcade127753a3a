"""The metrics of a queue in CloudWatch: those counted in the workers' lines, and those of Batch itself."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

NAMESPACE = "Tidemill"
"""A pipeline's namespace is `Tidemill/<team>-<environment>`: a queue's name alone says nothing in an account."""


@dataclass(frozen=True)
class EventMetric:
    """A metric: the pattern of its events, and the value of each."""

    name: str
    pattern: str
    value: str
    unit: str = "Count"


COUNTED = {
    "items": EventMetric("Items", '{ $.event = "chunk" }', "$.items"),
    "failed-items": EventMetric("FailedItems", '{ $.event = "chunk" }', "$.failed"),
    "reclaims": EventMetric("Reclaims", '{ $.event = "reclaim" }', "1"),
    "first-items": EventMetric("FirstItemWait", '{ $.event = "first_item" }', "$.waited_ms", "Milliseconds"),
    "worker-errors": EventMetric("WorkerErrors", '{ $.event = "worker_error" }', "1"),
}
"""By the suffix of the filter's name. Chunks count when their record stands, each once, so that failed items are a
share of the items of the same minutes."""

DIMENSION = "queue"

BATCH = "AWS/Batch"
"""Batch's own metrics of a job queue, free and without a grant. An array's children count, each for itself.
Source: https://docs.aws.amazon.com/batch/latest/userguide/using_cloudwatch_metrics.html"""
BATCH_DIMENSION = "JobQueueName"
SUBMITTED, RUNNABLE, STARTING, SUCCEEDED, FAILED = (
    "JobsSubmitted",
    "JobsMovedToRunnable",
    "JobsMovedToStarting",
    "JobsMovedToSucceeded",
    "JobsMovedToFailed",
)
WAITED = "JobAttemptRunnableToStartingDuration"
"""Milliseconds that each child waited for a machine, known once it starts."""


def metric_filters(
    name: str, group: pulumi.Input[str], namespace: str, opts: pulumi.ResourceOptions
) -> dict[str, aws.cloudwatch.LogMetricFilter]:
    """Filters of a log group's JSON lines. A metric has data, and a price, only in hours with matching lines.

    With a dimension there is no default value: a metric without lines has no data.
    Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntaxForMetricFilters.html
    """
    return {
        suffix: aws.cloudwatch.LogMetricFilter(
            f"{name}-{suffix}",
            log_group_name=group,
            pattern=counted.pattern,
            metric_transformation=aws.cloudwatch.LogMetricFilterMetricTransformationArgs(
                namespace=namespace,
                name=counted.name,
                value=counted.value,
                dimensions={DIMENSION: f"$.{DIMENSION}"},
                unit=counted.unit,
            ),
            opts=opts,
        )
        for suffix, counted in COUNTED.items()
    }
