"""The body of a pipeline's dashboard in Cloud Monitoring.

Source: https://cloud.google.com/monitoring/api/ref_v3/rest/v1/projects.dashboards
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .line_metrics import increase

COLUMNS = 48
_HEIGHT = 16
_MINUTES = 5
_HELP = (
    "`tidemill status JOB` shows a job, `tidemill explain JOB` why it does not progress, `tidemill failures JOB` what "
    "failed. Items count when their chunk is complete."
)
_BACKLOG = "pubsub.googleapis.com/subscription/num_undelivered_messages"
_AGE = "pubsub.googleapis.com/subscription/oldest_unacked_message_age"
_SIZE = "compute.googleapis.com/instance_group/size"
_CPU = "compute.googleapis.com/instance/cpu/utilization"
_SENT = "compute.googleapis.com/instance/network/sent_bytes_count"


def body(
    pipeline: str,
    *,
    log: str,
    metrics: Mapping[str, str],
    subscriptions: Mapping[str, str],
    fleets: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The dashboard as data.

    Args:
        pipeline: Its title.
        log: The workers' log.
        metrics: Names of the workers' metrics, by suffix.
        subscriptions: Their short names, by queue.
        fleets: The queues' settings for the reconciler, which name their groups.
    """
    groups = {fleet["name"]: [group["manager"] for group in fleet["groups"]] for fleet in fleets}
    rows = [[{"title": pipeline, "text": {"content": _HELP, "format": "MARKDOWN"}}]]
    rows.append(
        [
            _chart("Items", [_promql(metrics, "items"), _promql(metrics, "chunk-failures")]),
            _chart("Reclaims and errors", [_promql(metrics, "reclaims"), _promql(metrics, "worker-errors")]),
            _chart("Mean wait of jobs for their first item, ms", [_promql(metrics, "first-items", mean=True)]),
        ]
    )
    for queue, subscription in subscriptions.items():
        rows.append(
            [
                _chart(f"{queue}: chunks that wait or run", [_subscribed(_BACKLOG, subscription)]),
                _chart(f"{queue}: age of the oldest chunk, seconds", [_subscribed(_AGE, subscription)]),
            ]
        )
        if managers := groups.get(queue):
            rows.append(
                [
                    _chart(f"{queue}: machines of each group", [_size(manager) for manager in managers]),
                    _chart(f"{queue}: CPU of each machine, share", [_machine(_CPU, each) for each in managers]),
                    _chart(f"{queue}: bytes sent by each machine", [_machine(_SENT, each) for each in managers]),
                ]
            )
    lines = f'logName = "{log}" AND severity >= WARNING'
    rows.append([{"title": "Warnings and errors", "logsPanel": {"filter": lines}}])
    return {"displayName": pipeline, "mosaicLayout": {"columns": COLUMNS, "tiles": _placed(rows)}}


def _promql(metrics: Mapping[str, str], suffix: str, *, mean: bool = False) -> dict[str, Any]:
    query = increase(metrics[suffix], suffix, _MINUTES)
    query += f" / {increase(metrics[suffix], suffix, _MINUTES, lines=True)}" if mean else ""
    title = suffix.replace("-", " ")
    return {
        "plotType": "LINE",
        "legendTemplate": f"${{labels.queue}}: {title}",
        "timeSeriesQuery": {"prometheusQuery": query},
    }


def _subscribed(metric: str, subscription: str) -> dict[str, Any]:
    return _series(metric, f'"pubsub_subscription" AND resource.labels.subscription_id = "{subscription}"', "ALIGN_MAX")


def _size(manager: str) -> dict[str, Any]:
    wanted = f'"instance_group" AND resource.labels.instance_group_name = "{manager}"'
    return _series(_SIZE, wanted, "ALIGN_MEAN")


def _machine(metric: str, manager: str) -> dict[str, Any]:
    """A line for each machine of a group. Their names begin with the group's, without what the engine adds to it."""
    wanted = f'"gce_instance" AND metric.labels.instance_name = starts_with("{manager.rpartition("-")[0]}-")'
    return _series(metric, wanted, "ALIGN_MEAN" if metric == _CPU else "ALIGN_RATE")


def _series(metric: str, wanted: str, aligner: str) -> dict[str, Any]:
    aggregation = {"alignmentPeriod": "60s", "perSeriesAligner": aligner}
    asked = f'metric.type = "{metric}" AND resource.type = {wanted}'
    return {
        "plotType": "LINE",
        "timeSeriesQuery": {"timeSeriesFilter": {"filter": asked, "aggregation": aggregation}},
    }


def _chart(title: str, series: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"title": title, "xyChart": {"dataSets": list(series)}}


def _placed(rows: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Tiles row below row; those of a row share its width.

    A position of 0 is left out, because Google's answers have none: given, it would be a change at each update.
    """
    return [
        {
            **{key: at for key, at in (("xPos", number * (COLUMNS // len(row))), ("yPos", line * _HEIGHT)) if at},
            "width": COLUMNS // len(row),
            "height": _HEIGHT,
            "widget": widget,
        }
        for line, row in enumerate(rows)
        for number, widget in enumerate(row)
    ]
