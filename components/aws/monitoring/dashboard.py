"""The body of a pipeline's dashboard in CloudWatch.

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .metrics import (
    BATCH,
    BATCH_DIMENSION,
    COUNTED,
    DIMENSION,
    FAILED,
    SUBMITTED,
    SUCCEEDED,
    WAITED,
)

ALARMS_OF_A_WIDGET = 100
_WIDTH = 24
_HEIGHT = 6
_SECONDS = 300
_HELP = (
    "`tidemill status JOB` shows a job, `tidemill explain JOB` why it does not progress, `tidemill failures JOB` what "
    "failed. Items count when their chunk is complete."
)
_FAILED = (
    "filter event = 'item' and status = 'failed' | stats count(*) as failed by queue, job, reason | sort failed desc "
    "| limit 20"
)


def body(
    pipeline: str,
    *,
    region: str,
    namespace: str,
    log_group: str,
    clusters: Mapping[str, Sequence[str]],
    job_queues: Mapping[str, Mapping[str, str]],
    alarms: Sequence[str],
) -> dict[str, Any]:
    """The dashboard as data.

    Args:
        pipeline: Its title.
        region: Where the metrics and the log group are.
        namespace: Of the workers' metrics.
        log_group: The workers' lines.
        clusters: By queue, the names of the ECS clusters of its machines.
        job_queues: By queue and market, Batch's names of it; the market is empty for the queue itself.
        alarms: ARNs of the alarms.
    """
    rows = [[_text(f"# {pipeline}\n{_HELP}")]]
    for start in range(0, len(alarms), ALARMS_OF_A_WIDGET):
        some = list(alarms[start : start + ALARMS_OF_A_WIDGET])
        rows.append([_widget("alarm", {"title": "Alarms", "alarms": some}, _WIDTH, 2)])
    for queue, names in clusters.items():
        rows += _queue(queue, region, namespace, names, job_queues[queue])
    query = f"SOURCE '{log_group}' | {_FAILED}"
    log = {"title": "What failed", "region": region, "query": query, "view": "table"}
    rows.append([_widget("log", log, _WIDTH, _HEIGHT)])
    return {"widgets": _placed(rows)}


def _queue(
    queue: str, region: str, namespace: str, clusters: Sequence[str], job_queues: Mapping[str, str]
) -> list[list[dict[str, Any]]]:
    """A queue's rows: items, what failed, trouble; and backlog, wait, machines."""

    def metric(suffix: str, **look: Any) -> list[Any]:
        return [namespace, COUNTED[suffix].name, DIMENSION, queue, {"stat": "Sum", **look}]

    def shown(title: str, metrics: Sequence[Any], **more: Any) -> dict[str, Any]:
        fields = {"title": f"{queue}: {title}", "region": region, "view": "timeSeries", "period": _SECONDS}
        return _widget("metric", {**fields, "metrics": list(metrics), **more}, _WIDTH // 3, _HEIGHT)

    rate = {"expression": "100 * FILL(failed, 0) / items", "label": "failed, percent", "id": "rate"}
    hidden = [metric("items", id="items", visible=False), metric("failed-items", id="failed", visible=False)]
    lines = [_of_job_queue(name, market, number) for number, (market, name) in enumerate(job_queues.items())]
    first = {
        "expression": "first / 60000",
        "label": "longest wait of jobs for their first item, minutes",
        "id": "begin",
    }
    wait = metric("first-items", id="first", stat="Maximum", visible=False)
    reserved = [
        ["AWS/ECS", name, "ClusterName", cluster, {"stat": "Average"}]
        for cluster in clusters
        for name in ("CPUReservation", "MemoryReservation")
    ]
    percent = {"yAxis": {"left": {"min": 0, "max": 100}}}
    return [
        [
            shown("items", [metric("items"), metric("failed-items")]),
            shown("failed, percent", [[rate], *hidden], **percent),
            shown("reclaims and errors", [metric("reclaims"), metric("worker-errors")]),
        ],
        [
            shown("chunks that wait or run", [row for backlog, _ in lines for row in backlog]),
            shown("wait for a machine", [*(row for _, waits in lines for row in waits), [first], wait]),
            shown("machines reserved, percent", reserved, **percent),
        ],
    ]


def _of_job_queue(job_queue: str, market: str, number: int) -> tuple[list[Any], list[Any]]:
    """The rows of the backlog and of the wait on a job queue; `market` is of one for jobs that ask for it."""
    end, said = number or "", f", {market}" * bool(market)

    def batch(name: str, key: str, stat: str = "Sum") -> list[Any]:
        return [BATCH, name, BATCH_DIMENSION, job_queue, {"stat": stat, "id": f"{key}{end}", "visible": False}]

    # Batch counts what moves. The sum over the chart's time is the backlog if there was none at its start.
    left = f"RUNNING_SUM(FILL(submitted{end}, 0) - FILL(succeeded{end}, 0) - FILL(failed{end}, 0))"
    moves = [(SUBMITTED, "submitted"), (SUCCEEDED, "succeeded"), (FAILED, "failed")]
    backlog = {"expression": left, "label": f"chunks since the chart's start{said}", "id": f"left{end}"}
    label = f"longest wait of chunks that start, minutes{said}"
    waits = {"expression": f"waited{end} / 60000", "label": label, "id": f"waits{end}"}
    return (
        [[backlog], *(batch(name, key) for name, key in moves)],
        [[waits], batch(WAITED, "waited", "Maximum")],
    )


def _text(markdown: str) -> dict[str, Any]:
    return _widget("text", {"markdown": markdown}, _WIDTH, 2)


def _widget(kind: str, properties: Mapping[str, Any], width: int, height: int) -> dict[str, Any]:
    return {"type": kind, "width": width, "height": height, "properties": dict(properties)}


def _placed(rows: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The widgets with their places, row below row."""
    placed, y = [], 0
    for row in rows:
        x = 0
        for widget in row:
            placed.append({**widget, "x": x, "y": y})
            x += widget["width"]
        y += max(widget["height"] for widget in row)
    return placed
