"""Cloud Logging: entries go through the project's sinks into log buckets and are read back through views.

The stack makes the resources: sinks and their exclusions, the project's exclusions and log-based metrics.
"""

from __future__ import annotations

import base64
import bisect
import itertools
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from localcloud.gcp.filters import matches, parse
from localcloud.gcp.site import Plugin, Site
from localcloud.gcp.wire import Request, Response, RestError, epoch, stamp
from localcloud.rates import TokenBucket

Entry = dict[str, Any]
Key = tuple[float, str, str]
"""(timestamp, insertId, logName): entries that agree in all three are one entry."""
DESTINATION = "logging.googleapis.com/"
LOG = re.compile(r"projects/([^/]+)/logs/[\w%.-]{1,511}")
VIEW = re.compile(r"(projects/[^/]+/locations/[^/]+/buckets/[^/]+)/views/([^/]+)")
EVERY_BUCKETS = ("_AllLogs", "_Default")
"""https://cloud.google.com/logging/docs/logs-views: each log bucket has `_AllLogs`."""
PAGE, DEFAULT_PAGE = 1000, 50
READS_A_MINUTE = 60
"""Of a project, whoever reads: https://cloud.google.com/logging/quotas."""
DAY = 86400.0


class LogBucket:
    """The entries of one log bucket, ordered by key."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self._entries: dict[Key, tuple[float, Entry]] = {}

    def put(self, key: Key, received: float, entry: Entry) -> None:
        if key not in self._entries:
            bisect.insort(self.keys, key)
        self._entries[key] = received, entry

    def read(self, after: Key | None, backwards: bool, since: float) -> Iterator[tuple[Key, Entry]]:
        """Entries after a key, in either direction, that were received since then."""
        keys = self.keys[::-1] if backwards else self.keys
        if after is not None and backwards:
            keys = self.keys[: bisect.bisect_left(self.keys, after)][::-1]
        elif after is not None:
            keys = self.keys[bisect.bisect_right(self.keys, after) :]
        for key in keys:
            received, entry = self._entries[key]
            if received >= since:
                yield key, entry


class Logs(Plugin):
    apis = ("logging",)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._buckets: dict[str, LogBucket] = {}
        self._counted: Counter[str] = Counter()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._reads = TokenBucket(READS_A_MINUTE, site.clock.now(), 60)
        self.controls = {"logs": self.control, "logs/jobs": self.jobs}

    def control(self, _: dict[str, Any]) -> dict[str, Any]:
        """How many entries each bucket received, and how many each log-based metric counted."""
        with self._lock:
            kept = {name: len(bucket.keys) for name, bucket in self._buckets.items()}
            return {"buckets": kept, "metrics": dict(self._counted)}

    def jobs(self, _: dict[str, Any]) -> dict[str, Any]:
        """By node: the jobs of its lines."""
        found: dict[str, set[str]] = {}
        with self._lock:
            for bucket in self._buckets.values():
                for _key, entry in bucket.read(None, False, 0.0):
                    if job := entry.get("jsonPayload", {}).get("job"):
                        found.setdefault(entry["resource"].get("labels", {}).get("node_id", ""), set()).add(job)
        return {"nodes": {node: sorted(jobs) for node, jobs in found.items()}}

    def handle(self, request: Request) -> Response | None:
        """Write and list entries; check the filters of sinks and metrics."""
        call = request.call
        if call.id == "logging.entries.write":
            return self._write(request)
        if call.id == "logging.entries.list":
            return self._list(request)
        if call.body and call.method.verb in ("create", "update", "patch"):
            for held in (call.body, *call.body.get("exclusions", [])):
                parse(held.get("filter", ""))
            if ".metrics." in call.id:
                _check_buckets(call.body)
        return None

    def _write(self, request: Request) -> Response:
        body, now = request.call.body, self._site.clock.now()
        entries = [self._completed(entry, body, now) for entry in body.get("entries", [])]
        for name in {LOG.fullmatch(entry["logName"])[1] for entry in entries}:  # pyright: ignore[reportOptionalSubscript]
            project = f"cloudresourcemanager/projects/{name}"
            self._site.policy.check(request.principal, "logging.logEntries.create", project)
        if not body.get("dryRun"):
            routes = self._routes()
            declared = self._site.resources.list(f"logging/projects/{self._site.project}/metrics")
            metrics = [(each["name"], each["filter"]) for _, each in declared if not each.get("disabled")]
            with self._lock:
                for entry in entries:
                    self._keep(entry, routes, now)
                    self._counted.update(name for name, wanted in metrics if matches(wanted, entry))
        return Response.of({})

    def _completed(self, entry: Entry, body: Entry, now: float) -> Entry:
        """An entry with the request's defaults; an invalid one is refused."""
        given = {key: body[key] for key in ("logName", "resource") if key in body}
        at = stamp(now)
        if "timestamp" in entry:
            # Programs on machines have this machine's clock, and readers ask by the cloud's.
            at = stamp(self._site.clock.at(epoch(entry["timestamp"])))
        entry = {"insertId": f"localcloud{next(self._numbers):012}", **given, **entry, "timestamp": at}
        if labels := {**body.get("labels", {}), **entry.get("labels", {})}:
            entry["labels"] = labels
        if not LOG.fullmatch(entry.get("logName", "")):
            raise RestError(400, f"Invalid log name {entry.get('logName', '')!r}.", field="logName")
        if "type" not in entry.get("resource", {}):
            raise RestError(400, "A monitored resource is required.", field="resource")
        if sum(kind in entry for kind in ("textPayload", "jsonPayload", "protoPayload")) > 1:
            raise RestError(400, "An entry has at most one payload.", field="entries")
        return {**entry, "receiveTimestamp": stamp(now)}

    def _routes(self) -> list[tuple[str, str, list[str]]]:
        """(bucket, filter, filters of exclusions) of every sink into an existing log bucket, `_Default` included."""
        base = f"logging/projects/{self._site.project}"
        own = [
            each["filter"] for _, each in self._site.resources.list(f"{base}/exclusions") if not each.get("disabled")
        ]
        routes = [(f"projects/{self._site.project}/locations/global/buckets/_Default", "", own)]
        for _, sink in self._site.resources.list(f"{base}/sinks"):
            bucket = sink["destination"].removeprefix(DESTINATION)
            if sink.get("disabled") or bucket == sink["destination"] or not self._exists(bucket):
                continue
            excluded = [each["filter"] for each in sink.get("exclusions", []) if not each.get("disabled")]
            routes.append((bucket, sink.get("filter", ""), excluded))
        return routes

    def _exists(self, bucket: str) -> bool:
        return self._site.resources.get(f"logging/{bucket}") is not None

    def _keep(self, entry: Entry, routes: list[tuple[str, str, list[str]]], now: float) -> None:
        key = (epoch(entry["timestamp"]), entry["insertId"], entry["logName"])
        for bucket, wanted, excluded in routes:
            if matches(wanted, entry) and not any(matches(each, entry) for each in excluded):
                self._buckets.setdefault(bucket, LogBucket()).put(key, now, entry)

    def _list(self, request: Request) -> Response:
        if not self._reads.take(READS_A_MINUTE, self._site.clock.now()):
            metric = "'Read requests' and limit 'Read requests per minute' of service 'logging.googleapis.com'"
            raise RestError(429, f"Quota exceeded for quota metric {metric}.")
        body = request.call.body
        order, wanted = body.get("orderBy") or "timestamp asc", body.get("filter", "")
        if order not in ("timestamp asc", "timestamp desc"):
            raise RestError(400, f"orderBy {order!r} is neither 'timestamp asc' nor 'timestamp desc'.", field="orderBy")
        size = int(body.get("pageSize") or DEFAULT_PAGE)
        if size <= 0:
            raise RestError(400, "pageSize is negative.", field="pageSize")
        parse(wanted)
        after = tuple(json.loads(base64.urlsafe_b64decode(body["pageToken"]))) if body.get("pageToken") else None
        views = [view for name in body.get("resourceNames", []) for view in self._views(request, name)]
        if not views:
            raise RestError(400, "resourceNames is empty.", field="resourceNames")
        with self._lock:
            found = self._found(views, wanted, after, order.endswith("desc"))
            page = list(itertools.islice(found, min(size, PAGE) + 1))
        answer: Entry = {"entries": [entry for _, entry in page[: min(size, PAGE)]]} if page else {}
        if len(page) > min(size, PAGE):
            answer["nextPageToken"] = base64.urlsafe_b64encode(json.dumps(page[-2][0]).encode()).decode()
        return Response.of(answer)

    def _views(self, request: Request, name: str) -> list[tuple[str, str]]:
        """(bucket, filter) of each view that a resource name means, once the reader's permission is checked."""
        if found := VIEW.fullmatch(name):
            self._site.policy.check(request.principal, "logging.views.access", f"logging/{name}")
            view = self._site.resources.get(f"logging/{name}") or {}
            if not self._exists(found[1]) or (found[2] not in EVERY_BUCKETS and not view):
                raise RestError(404, f"{name} does not exist")
            return [(found[1], view.get("filter", ""))]
        if not re.fullmatch(r"projects/[^/]+", name):
            raise RestError(501, f"localcloud reads entries of projects and of views, not of {name!r}")
        self._site.policy.check(request.principal, "logging.logEntries.list", f"cloudresourcemanager/{name}")
        with self._lock:
            return [(bucket, "") for bucket in self._buckets if bucket.startswith(f"{name}/")]

    def _found(
        self, views: list[tuple[str, str]], wanted: str, after: Key | None, backwards: bool
    ) -> Iterator[tuple[Key, Entry]]:
        """The entries of several views in order, each once, within the retention of its bucket."""
        now, last = self._site.clock.now(), None
        sources = []
        for name, own in views:
            days = (self._site.resources.get(f"logging/{name}") or {}).get("retentionDays", 30)
            entries = self._buckets.get(name, LogBucket()).read(after, backwards, now - float(days) * DAY)
            sources.append(_passing(entries, own))
        # two entries with the same key are one entry, so only keys are compared
        for key, entry in _passing(_merged(sources, backwards), wanted):
            if key != last:
                last = key
                yield key, entry


def _check_buckets(metric: dict[str, Any]) -> None:
    """Refuse a distribution without buckets, which the API's description requires.

    Source: https://cloud.google.com/logging/docs/reference/v2/rest/v2/projects.metrics (bucketOptions)
    """
    if metric.get("metricDescriptor", {}).get("valueType") == "DISTRIBUTION" and "bucketOptions" not in metric:
        raise RestError(400, "A metric of the value type DISTRIBUTION needs bucketOptions.", field="bucketOptions")


def _passing(entries: Iterator[tuple[Key, Entry]], wanted: str) -> Iterator[tuple[Key, Entry]]:
    return (pair for pair in entries if matches(wanted, pair[1]))


def _merged(sources: list[Iterator[tuple[Key, Entry]]], backwards: bool) -> Iterator[tuple[Key, Entry]]:
    if len(sources) == 1:
        return sources[0]
    return iter(sorted(itertools.chain(*sources), key=lambda pair: pair[0], reverse=backwards))
