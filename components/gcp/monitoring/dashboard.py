"""The body of a pipeline's dashboard in Cloud Monitoring.

Source: https://cloud.google.com/monitoring/api/ref_v3/rest/v1/projects.dashboards
"""

from collections.abc import Mapping, Sequence
from typing import Any

from components.gcp.monitoring.line_metrics import increase

COLUMNS = 48
_HEIGHT = 16
_MINUTES = 5
_HELP = (
    "`tidemill status JOB` shows a job, `tidemill explain JOB` why it does not progress, `tidemill failures JOB` what "
    "failed. Items count when their chunk is complete."
)
_BACKLOG = "pubsub.googleapis.com/subscription/num_undelivered_messages"
_AGE = "pubsub.googleapis.com/subscription/oldest_unacked_message_age"


def body(pipeline: str, *, log: str, metrics: Mapping[str, str], subscriptions: Mapping[str, str]) -> dict[str, Any]:
    """The dashboard as data.

    Args:
        pipeline: Its title.
        log: The workers' log.
        metrics: Names of the workers' metrics, by suffix.
        subscriptions: Their short names, by queue.
    """
    rows = [[{"title": pipeline, "text": {"content": _HELP, "format": "MARKDOWN"}}]]
    rows.append(
        [
            _chart("Items", [_promql(metrics, "items"), _promql(metrics, "chunk-failures")]),
            _chart("Reclaims and errors", [_promql(metrics, "reclaims"), _promql(metrics, "worker-errors")]),
        ]
    )
    for queue, subscription in subscriptions.items():
        rows.append(
            [
                _chart(f"{queue}: chunks that wait or run", [_series(_BACKLOG, subscription)]),
                _chart(f"{queue}: age of the oldest chunk, seconds", [_series(_AGE, subscription)]),
            ]
        )
    lines = f'logName = "{log}" AND severity >= WARNING'
    rows.append([{"title": "Warnings and errors", "logsPanel": {"filter": lines}}])
    return {"displayName": pipeline, "mosaicLayout": {"columns": COLUMNS, "tiles": _placed(rows)}}


def _promql(metrics: Mapping[str, str], suffix: str) -> dict[str, Any]:
    query = increase(metrics[suffix], suffix, _MINUTES)
    title = suffix.replace("-", " ")
    return {
        "plotType": "LINE",
        "legendTemplate": f"${{labels.queue}}: {title}",
        "timeSeriesQuery": {"prometheusQuery": query},
    }


def _series(metric: str, subscription: str) -> dict[str, Any]:
    wanted = (
        f'metric.type = "{metric}" AND resource.type = "pubsub_subscription" AND '
        f'resource.labels.subscription_id = "{subscription}"'
    )
    aggregation = {"alignmentPeriod": "60s", "perSeriesAligner": "ALIGN_MAX"}
    return {
        "plotType": "LINE",
        "timeSeriesQuery": {"timeSeriesFilter": {"filter": wanted, "aggregation": aggregation}},
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
