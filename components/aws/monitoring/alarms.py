"""The alarms of a queue in CloudWatch, and the events of Batch that people are told of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws.monitoring.metrics import COUNTED, DIMENSION
from components.outputs import json_of
from tidemill.descriptor import CANCELLED

FEWEST_ITEMS = 20
"""Items of 15 minutes from which a share of failed ones says something."""
MOST_ERRORS = 10
"""Errors of workers within 15 minutes that need no attention: each is retried."""
LOOK_SECONDS = 900
STALL_LOOK_SECONDS = 300
_query = aws.cloudwatch.MetricAlarmMetricQueryArgs
_PATHS = {
    "queue": "$.detail.jobQueue",
    "job": "$.detail.parameters.job",
    "array": "$.detail.jobName",
    "reason": "$.detail.statusReason",
}
QUEUES_OF_A_RULE = 8
"""ARNs of up to 190 characters that fit an event pattern of 2,048 with the rest of it.
Source: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html"""


@dataclass(frozen=True)
class Alarms:
    """The alarms of a pipeline's queues, and the topic that they notify.

    Attributes:
        topic: ARN of the SNS topic.
        namespace: Namespace of the pipeline's metrics.
    """

    topic: pulumi.Input[str]
    namespace: str
    tags: Mapping[str, str] | None
    opts: pulumi.ResourceOptions

    def failed(self, name: str, queue: str, percent: int) -> pulumi.Output[str]:
        """An alarm of the share of failed items; its ARN."""
        rate = f"IF(items >= {FEWEST_ITEMS}, 100 * FILL(failed, 0) / items, 0)"
        return self._alarm(
            name,
            f"More than {percent} % of the items of queue {queue} failed within 15 minutes. `tidemill jobs` lists the "
            "jobs, `tidemill failures JOB` groups what failed.",
            [
                _query(id="rate", expression=rate, label="failed, percent", return_data=True),
                self._metric("items", "items", queue, LOOK_SECONDS),
                self._metric("failed", "failed-items", queue, LOOK_SECONDS),
            ],
            percent,
        )

    def errors(self, name: str, queue: str) -> pulumi.Output[str]:
        """An alarm of workers that fail; its ARN."""
        return self._alarm(
            name,
            f"More than {MOST_ERRORS} workers of queue {queue} failed within 15 minutes. `tidemill logs JOB --worker` "
            "shows what they say, `tidemill doctor` looks for the cause.",
            [self._metric("errors", "worker-errors", queue, LOOK_SECONDS, shown=True)],
            MOST_ERRORS,
        )

    def stalled(self, name: str, queue: str, clusters: Sequence[pulumi.Input[str]], minutes: int) -> pulumi.Output[str]:
        """An alarm of machines that are reserved while no item ends; its ARN."""
        reserved = [f"r{number}" for number in range(len(clusters))]
        busy = " + ".join(f"FILL({each}, 0)" for each in reserved)
        return self._alarm(
            name,
            f"Machines of queue {queue} are reserved, but no item has ended for {minutes} minutes. `tidemill explain "
            "JOB` says why.",
            [
                _query(
                    id="stalled",
                    expression=f"IF({busy} > 0 AND FILL(items, 0) == 0, 1, 0)",
                    label="stalled",
                    return_data=True,
                ),
                self._metric("items", "items", queue, STALL_LOOK_SECONDS),
                *(
                    _query(
                        id=each,
                        metric=aws.cloudwatch.MetricAlarmMetricQueryMetricArgs(
                            namespace="AWS/ECS",
                            metric_name="CPUReservation",
                            dimensions={"ClusterName": cluster},
                            stat="Maximum",
                            period=STALL_LOOK_SECONDS,
                        ),
                    )
                    for each, cluster in zip(reserved, clusters, strict=True)
                ),
            ],
            0,
            looks=minutes * 60 // STALL_LOOK_SECONDS,
        )

    def blocked(self, name: str, queues: Sequence[pulumi.Input[str]]) -> None:
        """Tell when Batch says that a job at the head of one of the queues cannot start.

        Source: https://docs.aws.amazon.com/batch/latest/userguide/batch-job-queue-blocked-events.html
        """
        text = (
            "Queue <queue> is blocked, Batch says: <reason> Job <job> (<array>) waits at its head. Why, and what to "
            "do: tidemill explain <job>"
        )
        self._events(name, "Batch Job Queue Blocked", queues, {}, text)

    def ended(self, name: str, queues: Sequence[pulumi.Input[str]]) -> None:
        """Tell when Batch gives an array up that no one cancelled. A child of an array has an index, and is not told.

        Source: https://docs.aws.amazon.com/batch/latest/userguide/batch_job_events.html
        """
        detail = {
            "status": ["FAILED"],
            "arrayProperties": {"index": [{"exists": False}]},
            "statusReason": [{"exists": False}, {"anything-but": {"prefix": CANCELLED}}],
        }
        text = (
            "Batch has given up chunks of job <job> (<array>) on queue <queue>, it says: <reason> What is lost, and "
            "what to do: tidemill explain <job>"
        )
        self._events(name, "Batch Job State Change", queues, detail, text)

    def _events(
        self, name: str, kind: str, queues: Sequence[pulumi.Input[str]], detail: Mapping[str, object], text: str
    ) -> None:
        """Rules for all queues together: the name of one per queue would not fit EventBridge's 64 characters."""
        for number, start in enumerate(range(0, len(queues), QUEUES_OF_A_RULE), start=1):
            some = {"jobQueue": list(queues[start : start + QUEUES_OF_A_RULE]), **detail}
            self._event(name if number == 1 else f"{name}-{number}", kind, some, text)

    def _event(self, name: str, kind: str, detail: Mapping[str, object], text: str) -> None:
        rule = aws.cloudwatch.EventRule(
            name,
            description=f"Tidemill: {kind}",
            event_pattern=json_of({"source": ["aws.batch"], "detail-type": [kind], "detail": detail}),
            tags=self.tags,
            opts=self.opts,
        )
        aws.cloudwatch.EventTarget(
            f"{name}-topic",
            rule=rule.name,
            target_id="topic",
            arn=self.topic,
            input_transformer=aws.cloudwatch.EventTargetInputTransformerArgs(
                input_paths=_PATHS, input_template=json.dumps(text)
            ),
            opts=self.opts,
        )

    def _metric(self, key: str, suffix: str, queue: str, seconds: int, *, shown: bool = False) -> _query:
        metric = aws.cloudwatch.MetricAlarmMetricQueryMetricArgs(
            namespace=self.namespace,
            metric_name=COUNTED[suffix].name,
            dimensions={DIMENSION: queue},
            stat="Sum",
            period=seconds,
        )
        return _query(id=key, metric=metric, return_data=True if shown else None)

    def _alarm(
        self, name: str, text: str, queries: Sequence[_query], threshold: int, looks: int = 1
    ) -> pulumi.Output[str]:
        return aws.cloudwatch.MetricAlarm(
            name,
            alarm_description=text,
            comparison_operator="GreaterThanThreshold",
            threshold=threshold,
            evaluation_periods=looks,
            datapoints_to_alarm=looks,
            metric_queries=list(queries),
            # A queue without work has no data, which is fine.
            treat_missing_data="notBreaching",
            alarm_actions=[self.topic],
            tags=self.tags,
            opts=self.opts,
        ).arn
