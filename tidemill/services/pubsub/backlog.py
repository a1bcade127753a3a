"""Reads a subscription's backlog from Cloud Monitoring: the time since which it is empty.

`num_undelivered_messages` counts messages that are not acknowledged, those that a worker holds included; it is sampled
every 60 s and may be shown up to 120 s late (https://cloud.google.com/monitoring/api/metrics_gcp_p_z). So zeros that
were sampled after a message was published, for a while, say that it was acknowledged, put aside, or dropped, and will
not be delivered again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tidemill.clouds.gcp.session import GoogleSession
from tidemill.clouds.gcp.times import seconds, stamp

METRIC = "pubsub.googleapis.com/subscription/num_undelivered_messages"
OLDEST = "pubsub.googleapis.com/subscription/oldest_unacked_message_age"
"""In seconds; sampled like the other one."""
SAMPLE_SECONDS = 60.0
EMPTY_SECONDS = 180.0
"""How long the backlog has to have been empty: one zero may be a sample that missed something."""
GAP_SECONDS = 150.0
"""Two samples may be this far apart; more is a gap, and what happened in it is unknown."""
WINDOW_SECONDS = 1800.0


class Point(NamedTuple):
    """A sample."""

    at: float
    """Seconds since the epoch."""
    backlog: int


class EmptyPeriod(NamedTuple):
    """The newest samples were all zero."""

    since: float
    until: float

    def covers(self, published_at: float) -> bool:
        """True if a message that was published then is gone for certain."""
        # A sample that is taken while a message is published may not have it yet.
        return self.until - max(self.since, published_at + SAMPLE_SECONDS) >= EMPTY_SECONDS


def empty_since(points: Sequence[Point]) -> EmptyPeriod | None:
    """The newest run of zeros without a gap, of samples in any order; None when the newest is not zero, or missing."""
    run: list[float] = []
    for point in sorted(points, reverse=True):
        if point.backlog or (run and run[-1] - point.at > GAP_SECONDS):
            break
        run.append(point.at)
    return EmptyPeriod(run[-1], run[0]) if run else None


def backlog(session: GoogleSession, subscription: str, metric: str = METRIC) -> list[Point]:
    """Samples of the last half hour, several series added up, of `projects/<project>/subscriptions/<id>`."""
    _, project, _, name = subscription.split("/")
    now = session.now()
    params = {
        "filter": f'metric.type="{metric}" AND resource.type="pubsub_subscription" '
        f'AND resource.labels.subscription_id="{name}"',
        "interval.startTime": stamp(now - WINDOW_SECONDS),
        "interval.endTime": stamp(now),
        "view": "FULL",
    }
    path = f"v3/projects/{project}/timeSeries"
    answer = session.call("monitoring", "GET", path, action="monitoring.timeSeries.list", params=params)
    values: dict[float, int] = {}
    for series in answer.get("timeSeries", []):
        for point in series.get("points", []):
            at = seconds(point["interval"]["endTime"])
            values[at] = values.get(at, 0) + _count(point["value"])
    return [Point(at, count) for at, count in values.items()]


def _count(value: dict[str, Any]) -> int:
    return int(value["int64Value"]) if "int64Value" in value else round(value.get("doubleValue", 0))
