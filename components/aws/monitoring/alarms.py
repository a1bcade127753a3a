"""The alarms of a queue in CloudWatch, and the events of Batch that people are told of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from tidemill.descriptor import CANCELLED

from ...notices import Notice
from ...outputs import json_of
from .metrics import BATCH, BATCH_DIMENSION, COUNTED, DIMENSION, FAILED, RUNNABLE, STARTING, WAITED

FEWEST_ITEMS = 20
"""Items of 15 minutes from which a share of failed ones says something."""
MOST_ERRORS = 10
"""Errors of workers within 15 minutes that need no attention: each is retried."""
FEWEST_STARTS = 20
"""Chunks started within an hour from which a share of reclaims says something."""
RECLAIM_HOURS = 3
"""Hours in a row of many reclaims that make a trend."""
LOOK_SECONDS = 900
STALL_LOOK_SECONDS = 300
HOUR_SECONDS = 3600
SPARE_LOOKS = 3
"""Looks beyond those that must tell: a chunk that started just before new work came does not hide its wait."""
_query = aws.cloudwatch.MetricAlarmMetricQueryArgs
_PATHS = {
    "queue": "$.detail.jobQueue",
    "job": "$.detail.parameters.job",
    "array": "$.detail.jobName",
    "reason": "$.detail.statusReason",
}
_EXPLAIN = "`tidemill explain JOB` says why; the job is named above."
"""The job's name is what a submitter has sent to Batch: it is text, and in no command that somebody may copy."""
QUEUES_OF_A_RULE = 8
"""ARNs of up to 190 characters that fit an event pattern of 2,048 with the rest of it.
Source: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html"""


@dataclass(frozen=True)
class Alarms:
    """The alarms of a pipeline's queues, and the topic that they notify.

    Attributes:
        topic: ARN of the SNS topic.
        namespace: Namespace of the pipeline's metrics.
        owner: Who owns the queues; each message says so.
    """

    topic: pulumi.Input[str]
    namespace: str
    owner: str
    tags: Mapping[str, str] | None
    opts: pulumi.ResourceOptions

    def failed(self, name: str, queue: str, percent: int) -> pulumi.Output[str]:
        """An alarm of the share of failed items; its ARN."""
        rate = f"IF(items >= {FEWEST_ITEMS}, 100 * FILL(failed, 0) / items, 0)"
        return self._alarm(
            name,
            Notice(
                "high",
                f"More than {percent} % of the items of queue {queue} failed within 15 minutes.",
                "fewer fail",
                "`tidemill jobs` lists the jobs, `tidemill failures JOB` groups what failed.",
            ),
            [
                _shown("rate", rate, "failed, percent"),
                self._metric("items", "items", queue, LOOK_SECONDS),
                self._metric("failed", "failed-items", queue, LOOK_SECONDS),
            ],
            percent,
        )

    def errors(self, name: str, queue: str) -> pulumi.Output[str]:
        """An alarm of workers that fail; its ARN."""
        return self._alarm(
            name,
            Notice(
                "medium",
                f"More than {MOST_ERRORS} workers of queue {queue} failed within 15 minutes.",
                "fewer fail",
                "`tidemill logs JOB --worker` shows what they say, `tidemill doctor` looks for the cause.",
            ),
            _alone(self._metric("errors", "worker-errors", queue, LOOK_SECONDS)),
            MOST_ERRORS,
        )

    def stalled(self, name: str, queue: str, clusters: Sequence[pulumi.Input[str]], minutes: int) -> pulumi.Output[str]:
        """An alarm of machines that are reserved while no item ends; its ARN."""
        busy, reserved = _reserved(clusters)
        return self._alarm(
            name,
            Notice(
                "high",
                f"Machines of queue {queue} are reserved, but no item has ended for {minutes} minutes.",
                "an item ends or the machines are gone",
                "`tidemill explain JOB` says why.",
            ),
            [
                _shown("stalled", f"IF({busy} > 0 AND FILL(items, 0) == 0, 1, 0)"),
                self._metric("items", "items", queue, STALL_LOOK_SECONDS),
                *reserved,
            ],
            0,
            looks=minutes * 60 // STALL_LOOK_SECONDS,
        )

    def growing(self, name: str, queue: str, job_queue: pulumi.Input[str], hours: int) -> pulumi.Output[str]:
        """An alarm of a backlog that has grown in each of the last hours; its ARN."""
        return self._alarm(
            name,
            Notice(
                "medium",
                f"More chunks have come to queue {queue} than could start, in each of the last {hours} hours.",
                "no more come than start",
                "`tidemill top` shows what waits and for whom, `tidemill explain JOB` what holds it.",
            ),
            [
                _shown("growth", "FILL(runnable, 0) - FILL(starting, 0)", "chunks that wait, more than an hour ago"),
                _batch("runnable", RUNNABLE, job_queue, HOUR_SECONDS),
                _batch("starting", STARTING, job_queue, HOUR_SECONDS),
            ],
            0,
            looks=hours,
        )

    def full(self, name: str, queue: str, job_queue: pulumi.Input[str], hours: int) -> pulumi.Output[str]:
        """An alarm of a queue at its cap whose work will not end soon; its ARN.

        Batch starts machines within minutes up to `max_cpus`. So work that starts, and waited for hours, did so because
        all machines were busy and there were no more to be had. A job that takes all night at the cap by intent comes
        at once, and its backlog only shrinks: it tells nobody.
        """
        return self._alarm(
            name,
            Notice(
                "low",
                f"Chunks of queue {queue} wait more than {hours} hours for a machine, and in these hours as many have "
                "come as started: the queue is at its max_cpus, or the cloud has no more machines.",
                "they wait less, or fewer come than start",
                "`tidemill top` shows who uses the queue, `tidemill explain JOB` why a job waits.",
            ),
            [
                _shown("late", "IF(FILL(runnable, 0) >= FILL(starting, 0), waited, 0)", "wait, milliseconds"),
                _batch("waited", WAITED, job_queue, hours * HOUR_SECONDS, "Average"),
                _batch("runnable", RUNNABLE, job_queue, hours * HOUR_SECONDS),
                _batch("starting", STARTING, job_queue, hours * HOUR_SECONDS),
            ],
            hours * HOUR_SECONDS * 1000,
        )

    def reclaims(
        self, name: str, queue: str, job_queues: Sequence[pulumi.Input[str]], percent: int
    ) -> pulumi.Output[str]:
        """An alarm of Spot machines that keep being taken back; its ARN. Workers count those of all job queues."""
        keys = ["starting", *(f"starting{number}" for number in range(1, len(job_queues)))]
        starts = " + ".join(f"FILL({key}, 0)" for key in keys)
        all_starts = "starting" if len(keys) == 1 else f"({starts})"
        rate = f"IF({starts} >= {FEWEST_STARTS}, 100 * FILL(reclaims, 0) / {all_starts}, 0)"
        return self._alarm(
            name,
            Notice(
                "low",
                f"More than {percent} % of the chunks that queue {queue} starts lose their machine, in each of the "
                f"last {RECLAIM_HOURS} hours.",
                "an hour passes with fewer reclaims",
                "`tidemill report JOB` shows what they cost, `tidemill advise` which machines are taken less often.",
            ),
            [
                _shown("rate", rate, "reclaimed, percent"),
                *(_batch(key, STARTING, each, HOUR_SECONDS) for key, each in zip(keys, job_queues, strict=True)),
                self._metric("reclaims", "reclaims", queue, HOUR_SECONDS),
            ],
            percent,
            looks=RECLAIM_HOURS,
        )

    def no_machine(
        self,
        name: str,
        queue: str,
        job_queue: pulumi.Input[str],
        clusters: Sequence[pulumi.Input[str]],
        minutes: int,
    ) -> pulumi.Output[str]:
        """An alarm of work that waits while no machine takes any; its ARN.

        The sums run over the looks of an evaluation. Where neither work has come nor any started or was given up, there
        is no value, and the alarm keeps its state until a chunk starts or fails.
        """
        busy, reserved = _reserved(clusters)
        moved = "RUNNING_SUM(FILL(starting, 0) + FILL(failed, 0))"
        came = "RUNNING_SUM(FILL(runnable, 0))"
        looks = minutes * 60 // STALL_LOOK_SECONDS
        return self._alarm(
            name,
            Notice(
                "high",
                f"Work has waited on queue {queue} for {minutes} minutes, and no machine runs any.",
                "a chunk starts or the work is cancelled",
                "`tidemill explain JOB` says why, `tidemill doctor` looks at quotas and the network.",
            ),
            [
                _shown("waits", f"IF({came} + {moved} > 0, IF({moved} == 0 AND {busy} == 0, 1, 0))"),
                _batch("runnable", RUNNABLE, job_queue, STALL_LOOK_SECONDS),
                _batch("starting", STARTING, job_queue, STALL_LOOK_SECONDS),
                _batch("failed", FAILED, job_queue, STALL_LOOK_SECONDS),
                *reserved,
            ],
            0,
            looks=looks + SPARE_LOOKS,
            least=looks,
            missing="ignore",
        )

    def blocked(self, name: str, queues: Sequence[pulumi.Input[str]]) -> None:
        """Tell when Batch says that a job at the head of one of the queues cannot start.

        Source: https://docs.aws.amazon.com/batch/latest/userguide/batch-job-queue-blocked-events.html
        """
        what = "Queue <queue> is blocked, Batch says: <reason> Job <job> (<array>) waits at its head."
        self._events(name, "Batch Job Queue Blocked", queues, {}, Notice("high", what, "", _EXPLAIN))

    def ended(self, name: str, queues: Sequence[pulumi.Input[str]]) -> None:
        """Tell when Batch gives an array up that no one cancelled. A child of an array has an index, and is not told.

        Source: https://docs.aws.amazon.com/batch/latest/userguide/batch_job_events.html
        """
        detail = {
            "status": ["FAILED"],
            "arrayProperties": {"index": [{"exists": False}]},
            "statusReason": [{"exists": False}, {"anything-but": {"prefix": CANCELLED}}],
        }
        notice = Notice(
            "high",
            "Batch has given up chunks of job <job> (<array>) on queue <queue>, it says: <reason>",
            "",
            _EXPLAIN,
        )
        self._events(name, "Batch Job State Change", queues, detail, notice)

    def _events(
        self, name: str, kind: str, queues: Sequence[pulumi.Input[str]], detail: Mapping[str, object], notice: Notice
    ) -> None:
        """Rules for all queues together: the name of one per queue would not fit EventBridge's 64 characters."""
        for number, start in enumerate(range(0, len(queues), QUEUES_OF_A_RULE), start=1):
            some = {"jobQueue": list(queues[start : start + QUEUES_OF_A_RULE]), **detail}
            self._event(name if number == 1 else f"{name}-{number}", kind, some, notice.text(self.owner))

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

    def _metric(self, key: str, suffix: str, queue: str, seconds: int) -> _query:
        return _of(key, (self.namespace, COUNTED[suffix].name), {DIMENSION: queue}, seconds)

    def _alarm(
        self,
        name: str,
        notice: Notice,
        queries: Sequence[_query],
        threshold: int,
        *,
        looks: int = 1,
        least: int | None = None,
        missing: str = "notBreaching",
    ) -> pulumi.Output[str]:
        """An alarm where at least so many of the looks are above a threshold; None for all of them.

        A queue without work has no data, which is fine.
        """
        return aws.cloudwatch.MetricAlarm(
            name,
            alarm_description=notice.text(self.owner),
            comparison_operator="GreaterThanThreshold",
            threshold=threshold,
            evaluation_periods=looks,
            datapoints_to_alarm=least or looks,
            metric_queries=list(queries),
            treat_missing_data=missing,
            alarm_actions=[self.topic],
            ok_actions=[self.topic],
            tags=self.tags,
            opts=self.opts,
        ).arn


def _shown(key: str, expression: str, label: str | None = None) -> _query:
    """The expression that an alarm compares."""
    return _query(id=key, expression=expression, label=label or key, return_data=True)


def _of(
    key: str, source: tuple[str, str], dimensions: Mapping[str, pulumi.Input[str]], seconds: int, stat: str = "Sum"
) -> _query:
    """A metric, by its namespace and name."""
    namespace, name = source
    metric = aws.cloudwatch.MetricAlarmMetricQueryMetricArgs(
        namespace=namespace, metric_name=name, dimensions=dict(dimensions), stat=stat, period=seconds
    )
    return _query(id=key, metric=metric)


def _batch(key: str, name: str, job_queue: pulumi.Input[str], seconds: int, stat: str = "Sum") -> _query:
    """A metric of Batch itself."""
    return _of(key, (BATCH, name), {BATCH_DIMENSION: job_queue}, seconds, stat)


def _alone(query: _query) -> list[_query]:
    """The queries of an alarm that compares a metric itself."""
    query.return_data = True
    return [query]


def _reserved(clusters: Sequence[pulumi.Input[str]]) -> tuple[str, list[_query]]:
    """The share of a queue's machines that is reserved, as an expression, and the metrics that it reads."""
    names = [f"r{number}" for number in range(len(clusters))]
    queries = [
        _of(name, ("AWS/ECS", "CPUReservation"), {"ClusterName": cluster}, STALL_LOOK_SECONDS, "Maximum")
        for name, cluster in zip(names, clusters, strict=True)
    ]
    return " + ".join(f"FILL({name}, 0)" for name in names) or "0", queries
