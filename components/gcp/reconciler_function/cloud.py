"""The calls that the reconciler makes: plain REST as the function's own service account."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from google.auth.compute_engine import Credentials
from google.auth.transport.requests import AuthorizedSession

from .decide import Group, Machine, Sample, is_stockout

HISTORY_SECONDS = 1200
"""How far back the backlog is read."""
MOST_REMOVED = 1000
"""In one call. Source: https://cloud.google.com/compute/docs/reference/rest/v1/regionInstanceGroupManagers/deleteInstances"""
BACKLOG = "pubsub.googleapis.com/subscription/num_undelivered_messages"

_BASES = {
    "COMPUTE": "https://compute.googleapis.com/",
    "MONITORING": "https://monitoring.googleapis.com/",
    "STORAGE": "https://storage.googleapis.com/",
}
_TRIES = 3
_TIMEOUT_SECONDS = 20
_ERRORS_SHOWN = 5
_CREATING = frozenset({"CREATING", "RECREATING", "CREATING_WITHOUT_RETRIES"})


class Session(Protocol):
    """What is used of `requests.Session`."""

    def request(self, method: str, url: str, **more: Any) -> Any:
        """Make a call."""
        ...


class CallError(Exception):
    """A call that Google refused, or that did not get through."""


def session() -> Session:
    """A session that is logged in as the function's service account."""
    return AuthorizedSession(Credentials())


@dataclass(frozen=True)
class Reading:
    """A group as it was at a moment."""

    group: Group
    errors: list[str]
    """What went wrong in the last hour, each text once, the newest first."""
    at: float
    """When its machines were listed, by the cloud's clock."""


class Cloud:
    """Google's APIs, as far as the reconciler needs them.

    Args:
        project: The project.
        region: The region of the groups.
        bucket: The job store's bucket.
        session: Makes the calls.
        pause: Sleeps between two tries.
    """

    def __init__(self, project: str, region: str, bucket: str, session: Session, pause: Any = time.sleep) -> None:
        self._place = f"projects/{project}/regions/{region}"
        self._project, self._bucket, self._session, self._pause = project, bucket, session, pause
        self.skew = 0.0
        """What the cloud's clock is ahead of this one; its answers say so."""

    def now(self) -> float:
        """Epoch seconds by the clock that the cloud's own times are from."""
        return time.time() + self.skew

    # ---- reading ----------------------------------------------------------------------------------------------------

    def read(self, wanted: Mapping[str, Any], broken: Mapping[str, float]) -> Reading:
        """A group as it is, and what it says went wrong lately.

        Args:
            wanted: Its entry in the settings.
            broken: When machines wrote that they cannot run their worker, by name.

        Raises:
            CallError: It could not be read as a whole.
        """
        name = wanted["manager"]
        manager = self._compute("GET", f"instanceGroupManagers/{name}")
        autoscaler = self._compute("GET", f"autoscalers/{wanted['autoscaler']}")
        errors = list(self._pages("GET", f"instanceGroupManagers/{name}/listErrors", "items"))
        at = self.now()
        listed = list(self._pages("POST", f"instanceGroupManagers/{name}/listManagedInstances", "managedInstances"))
        stockouts = [_at(each) for each in errors if is_stockout(each.get("error", {}).get("code", ""))]
        failing = _failing(errors)
        group = Group(
            market=wanted["market"],
            machines=[_machine(each, failing, broken) for each in listed],
            target=int(manager.get("targetSize", 0)),
            per_machine=float(wanted["per_machine"]),
            minimum=int(wanted["minimum"]),
            mode=autoscaler.get("autoscalingPolicy", {}).get("mode", "ON"),
            stockout_at=max(stockouts, default=None),
        )
        return Reading(group, _texts(errors, listed, at), at)

    def backlog(self, subscription: str) -> list[Sample]:
        """Samples of the unacknowledged messages of a subscription; none where Monitoring has none.

        Raises:
            CallError: It could not be read.
        """
        now = self.now()
        found = self._call(
            "GET",
            f"{_base('MONITORING')}v3/projects/{self._project}/timeSeries",
            params={
                "filter": f'metric.type = "{BACKLOG}" AND resource.type = "pubsub_subscription" '
                f'AND resource.labels.subscription_id = "{subscription}"',
                "interval.startTime": iso(now - HISTORY_SECONDS),
                "interval.endTime": iso(now),
            },
        )
        sums: dict[float, float] = {}
        for series in found.get("timeSeries", []):
            for point in series.get("points", []):
                at = _epoch(point["interval"]["endTime"])
                sums[at] = sums.get(at, 0.0) + float(point["value"].get("int64Value", 0))
        return [Sample(at, value) for at, value in sums.items()]

    def broken(self) -> dict[str, float]:
        """When machines wrote that they cannot run their worker, by name.

        Raises:
            CallError: The records could not be listed.
        """
        found: dict[str, float] = {}
        query = {"prefix": "fleet/errors/", "fields": "items(name,timeCreated),nextPageToken"}
        url = f"{_base('STORAGE')}storage/v1/b/{self._bucket}/o"
        for each in self._all_pages("GET", url, "items", query):
            name = each["name"].rpartition("/")[2].removesuffix(".json")
            found[name] = _epoch(each["timeCreated"])
        return found

    # ---- changing ---------------------------------------------------------------------------------------------------

    def remove(self, manager: str, instances: Sequence[str]) -> None:
        """Delete machines, which lowers the group's target size by as many.

        Machines that are gone or going already are passed over.
        """
        for start in range(0, len(instances), MOST_REMOVED):
            body = {"instances": list(instances[start : start + MOST_REMOVED]), "skipInstancesOnValidationError": True}
            self._compute("POST", f"instanceGroupManagers/{manager}/deleteInstances", json=body)

    def set_mode(self, autoscaler: str, mode: str) -> None:
        """Set an autoscaler's mode and nothing else of it."""
        body = {"autoscalingPolicy": {"mode": mode}}
        self._compute("PATCH", "autoscalers", params={"autoscaler": autoscaler}, json=body)

    def write(self, name: str, content: str, kind: str) -> None:
        """Write an object of the job store."""
        self._call(
            "POST",
            f"{_base('STORAGE')}upload/storage/v1/b/{self._bucket}/o",
            params={"uploadType": "media", "name": name},
            data=content.encode(),
            headers={"Content-Type": kind},
        )

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _compute(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        return self._call(method, f"{_base('COMPUTE')}compute/v1/{self._place}/{path}", **more)

    def _pages(self, method: str, path: str, key: str) -> Iterator[dict[str, Any]]:
        url = f"{_base('COMPUTE')}compute/v1/{self._place}/{path}"
        return self._all_pages(method, url, key, {"maxResults": "500"})

    def _all_pages(self, method: str, url: str, key: str, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        page: dict[str, Any] = {}
        while True:
            more = {"pageToken": page["nextPageToken"]} if page else {}
            page = self._call(method, url, params={**query, **more})
            yield from page.get(key, [])
            if not page.get("nextPageToken"):
                return

    def _call(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        """Every call here may be repeated: it reads, or it asks for a state that is then there."""
        for left in reversed(range(_TRIES)):
            problem = ""
            try:
                answer = self._session.request(method, url, timeout=_TIMEOUT_SECONDS, **more)
            except Exception as error:
                problem, passing = f"{type(error).__name__}: {error}", True
            else:
                self._look_at_clock(answer.headers)
                if answer.status_code < 300:
                    return _document(answer, method, url)
                problem = f"{answer.status_code} {answer.text[:300]}"
                passing = answer.status_code in (408, 429) or answer.status_code >= 500
            if not left or not passing:
                raise CallError(f"{method} {url.partition('?')[0]}: {problem}")
            self._pause(1.0)
        raise AssertionError("unreachable")

    def _look_at_clock(self, headers: Mapping[str, str]) -> None:
        stamp = headers.get("Date")
        if stamp:
            self.skew = parsedate_to_datetime(stamp).timestamp() - time.time()


def _document(answer: Any, method: str, url: str) -> dict[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        raise CallError(f"{method} {url}: the answer is no JSON") from None
    if not isinstance(document, dict):
        raise CallError(f"{method} {url}: the answer is no object")
    return document


def _base(api: str) -> str:
    return os.environ.get(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}") or _BASES[api]


def iso(epoch: float) -> str:
    """RFC 3339 in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _at(error: Mapping[str, Any]) -> float:
    return _epoch(error["timestamp"])


def _failing(errors: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The first failed attempt to create each machine, by the machine's URL."""
    found: dict[str, float] = {}
    for error in errors:
        details = error.get("instanceActionDetails", {})
        if details.get("action") in _CREATING and details.get("instance"):
            name = _partial(details["instance"])
            found[name] = min(found.get(name, _at(error)), _at(error))
    return found


def _partial(url: str) -> str:
    """``zones/<zone>/instances/<name>``, which a regional group wants machines named by."""
    return url[url.index("zones/") :]


def _machine(listed: Mapping[str, Any], failing: Mapping[str, float], broken: Mapping[str, float]) -> Machine:
    name = _partial(listed["instance"])
    return Machine(
        name=name,
        status=listed.get("instanceStatus", ""),
        action=listed.get("currentAction", "NONE"),
        stockout=any(is_stockout(error.get("code", "")) for error in _attempt(listed)),
        failing_since=failing.get(name),
        broken_at=broken.get(name.rpartition("/")[2]),
    )


def _attempt(listed: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return listed.get("lastAttempt", {}).get("errors", {}).get("errors", [])


def _texts(errors: Sequence[Mapping[str, Any]], listed: Sequence[Mapping[str, Any]], now: float) -> list[str]:
    lately = sorted((each for each in errors if now - _at(each) <= 3600), key=_at, reverse=True)
    found = [each.get("error", {}) for each in lately] + [error for each in listed for error in _attempt(each)]
    texts = (f"{error.get('code', 'UNKNOWN')}: {error.get('message', '')}"[:300] for error in found)
    return list(dict.fromkeys(texts))[:_ERRORS_SHOWN]
