"""Cloud Monitoring of subscriptions: sampled at intervals, visible late.

How often and how late: https://cloud.google.com/monitoring/api/metrics_gcp_p_z#gcp-pubsub
"""

from __future__ import annotations

import json
import re
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterator
from typing import Any, ClassVar

from localcloud.gcp import filters
from localcloud.gcp.pubsub.plugin import PubSubPlugin
from localcloud.gcp.site import Plugin, Site
from localcloud.gcp.wire import Request, Response, RestError, epoch, stamp

Value = dict[str, Any]
METRICS = {
    "pubsub.googleapis.com/subscription/num_undelivered_messages": "unacked",
    "pubsub.googleapis.com/subscription/oldest_unacked_message_age": "oldest_unacked_seconds",
}
KEPT = 24 * 3600
PAGE = 100_000
METRIC_SECONDS = 600
USER_METRIC = re.compile(r"logging\.googleapis\.com/user/([\w./-]+)")


class Samples:
    """The samples of each series, and when each becomes visible.

    Args:
        delay: Seconds until a sample is visible.
    """

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._series: dict[tuple[str, str, str], deque[tuple[float, int]]] = {}
        self._lock = threading.Lock()

    def add(self, at: float, metric: str, project: str, subscription: str, value: float) -> None:
        with self._lock:
            kept = self._series.setdefault((metric, project, subscription), deque())
            kept.append((at, int(value)))
            while kept[0][0] < at - KEPT:
                kept.popleft()

    def visible(self, wanted: str, now: float) -> Iterator[tuple[Value, list[tuple[float, int]]]]:
        """The series that match a filter, each with its points, oldest first.

        Raises:
            RestError: 400: the filter has an operator other than `=`, or cannot be parsed.
        """
        terms = filters.parse(wanted)
        if any(term.op != "=" or term.negated for term in terms):
            raise RestError(400, "localcloud's Monitoring knows filters of `=` and AND alone.", field="filter")
        with self._lock:
            held = [(key, list(points)) for key, points in self._series.items()]
        for (metric, project, subscription), points in held:
            labels = {"project_id": project, "subscription_id": subscription}
            series = {"metric": {"type": metric}, "resource": {"type": "pubsub_subscription", "labels": labels}}
            # the short names `metric.label.x` and `resource.label.x` are Monitoring's own
            known = {**series, "resource": {**series["resource"], "label": labels}, "project": project}
            if all(term.field(known) == term.value for term in terms):
                yield series, [(at, value) for at, value in points if at <= now - self._delay]

    def newest(self, metric: str, wanted: str, now: float) -> tuple[float, float] | None:
        """(sample time, value) of the newest visible point, summed over the series; None if there are no points."""
        points = [points[-1] for series, points in self.visible(wanted, now)
                  if points and series["metric"]["type"] == metric]  # fmt: skip
        return (max(at for at, _ in points), float(sum(value for _, value in points))) if points else None


class Monitoring(Plugin):
    """The plug-in; it samples by itself."""

    apis = ("monitoring",)
    options: ClassVar = {
        "metric_period": (60.0, "seconds of the cloud's clock between two samples"),
        "metric_delay": (120.0, "seconds of the cloud's clock until a sample is visible"),
    }

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.samples = Samples(site.options.metric_delay)
        self.newest = self.samples.newest
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(timeout=2)

    def _run(self) -> None:
        clock, period = self._site.clock, self._site.options.metric_period
        at = clock.now()
        while not clock.wait(self._ended, at - clock.now()):
            try:
                self.sample()
            except Exception:
                traceback.print_exc(file=sys.stderr)  # leaves a gap, as when the real service fails
            at = max(at + period, clock.now())

    def sample(self) -> None:
        """Take one sample of every subscription."""
        backlog, at = self._site.plugin(PubSubPlugin).backlog(), self._site.clock.now()
        for name, state in backlog.items():
            _, project, _, subscription = name.split("/")
            for metric, key in METRICS.items():
                self.samples.add(at, metric, project, subscription, state[key])

    def handle(self, request: Request) -> Response | None:
        """Answer `timeSeries.list`; check alert policies, and store dashboards as Google does."""
        body, verb = request.call.body, request.call.method.verb
        if body and verb in ("create", "patch") and ".dashboards." in request.call.id:
            _drop_zero_positions(body)
        if body and verb in ("create", "patch") and ".alertPolicies." in request.call.id:
            self._check_metrics(body)
        if request.call.id != "monitoring.projects.timeSeries.list":
            return None
        params = request.call.params
        wanted = params["filter"]
        if not any(term.path == ("metric", "type") for term in filters.parse(wanted)):
            raise RestError(400, "The filter must name a single metric type.", field="filter")
        left_out = [name for name in params if name.startswith(("aggregation", "secondaryAggregation"))]
        if left_out:
            raise RestError(501, f"localcloud's Monitoring does not know {', '.join(sorted(left_out))}")
        if "interval.endTime" not in params:
            raise RestError(400, "The interval has no end.", field="interval.endTime")
        end = epoch(params["interval.endTime"])
        start = epoch(params.get("interval.startTime", params["interval.endTime"]))
        found, skip = [], int(params.get("pageToken") or 0)
        size = min(int(params.get("pageSize") or PAGE), PAGE)
        for series, points in self.samples.visible(wanted, self._site.clock.now()):
            # newest first; an interval is open at its start: (start, end]
            within = [
                _point(*point) for point in reversed(points) if start < point[0] <= end or start == point[0] == end
            ]
            if within:
                found.append({**series, "metricKind": "GAUGE", "valueType": "INT64", "points": within})
        answer: Value = {"timeSeries": found[skip : skip + size]} if found else {}
        if skip + size < len(found):
            answer["nextPageToken"] = str(skip + size)
        return Response.of(answer)

    def _check_metrics(self, policy: dict[str, Any]) -> None:
        """Refuse a condition on a log-based metric that Monitoring does not know yet; PromQL may leave out the check.

        Source: https://github.com/hashicorp/terraform-provider-google/issues/11102
        """
        for metric in sorted(set(USER_METRIC.findall(json.dumps(_conditions(policy))))):
            held = self._site.resources.get(f"logging/projects/{self._site.project}/metrics/{metric}") or {}
            made = held.get("createTime")
            if made is None or self._site.clock.now() - epoch(made) < METRIC_SECONDS:
                text = f'Cannot find metric(s) that match type = "logging.googleapis.com/user/{metric}".'
                raise RestError(404, f"{text} If a metric was created recently, it could take up to 10 minutes.")


def _conditions(policy: dict[str, Any]) -> list[dict[str, Any]]:
    """The conditions whose metrics Monitoring looks up."""
    parts = [part for each in policy.get("conditions", []) for part in each.values() if isinstance(part, dict)]
    return [part for part in parts if not part.get("disableMetricValidation")]


def _drop_zero_positions(dashboard: dict[str, Any]) -> None:
    """Leave out the positions that are 0: Google's answers have none.

    Source: https://github.com/GoogleCloudPlatform/magic-modules/pull/18515
    """
    for tile in dashboard.get("mosaicLayout", {}).get("tiles", []):
        for key in ("xPos", "yPos"):
            if tile.get(key) == 0:
                del tile[key]


def _point(at: float, value: int) -> Value:
    return {"interval": {"startTime": stamp(at), "endTime": stamp(at)}, "value": {"int64Value": str(value)}}
