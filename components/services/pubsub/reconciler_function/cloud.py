"""The reconciler's API calls: plain REST as the function's own service account."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any, Protocol

from google.auth.compute_engine import Credentials
from google.auth.transport.requests import AuthorizedSession

from tidemill.fleet import FleetGroup, MachineFailure, ScalerNote
from tidemill.layout import FLEET_ALIVE, FLEET_ERRORS

from .answers import Notes, epoch, error_at, failing_since, failures_of, iso, machine_of, texts_of
from .decide import BROKEN_SECONDS, Group, Sample, is_stockout

HISTORY_SECONDS = 1200
"""How far back the backlog is read."""
MOST_REMOVED = 1000
"""In one call. Source: https://cloud.google.com/compute/docs/reference/rest/v1/regionInstanceGroupManagers/deleteInstances"""
BACKLOG = "pubsub.googleapis.com/subscription/num_undelivered_messages"

RUN_SECONDS = 85.0
"""How long a run may make calls; the rest of the function's time is for its report."""
ERROR_SECONDS = 40.0
ERROR_PAGES = 20
"""How much of a run, and of a group's time, reading errors may take: a large group in a stockout has tens of thousands
of errors, and the API can neither filter nor sort them.
Source: https://cloud.google.com/compute/docs/reference/rest/v1/regionInstanceGroupManagers/listErrors"""
NOTE_PAGES = 20
"""Of a thousand names, of what machines have written."""

STAMP = re.compile(r"^\d{8}T\d{6}Z-")
"""Of an error record's name, before the machine's."""

_BASES = {
    "COMPUTE": "https://compute.googleapis.com/",
    "MONITORING": "https://monitoring.googleapis.com/",
    "PUBSUB": "https://pubsub.googleapis.com/",
    "STORAGE": "https://storage.googleapis.com/",
}
_TRIES = 3
_BLOCK_BYTES = 2**16
_TIMEOUT_SECONDS = 20
_REPORT_SECONDS = 15.0


class Session(Protocol):
    """The used part of `requests.Session`."""

    def request(self, method: str, url: str, **more: Any) -> Any:
        """Make a call."""
        ...


class CallError(Exception):
    """A call that Google refused or that failed, with the status code of a refusal."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class LateError(CallError):
    """A call that was not made: the run is out of time."""


def session() -> Session:
    """A session that is logged in as the function's service account."""
    return AuthorizedSession(Credentials())


@dataclass(frozen=True)
class Reading:
    """A snapshot of a group."""

    group: Group
    errors: dict[str, str]
    """Errors of the last hour: each text once with its code, the newest first."""
    at: float
    """When its machines were listed, by the cloud's clock."""
    failures: list[MachineFailure]
    """The newest errors of each code."""
    scaler: str
    """Status of its autoscaler."""
    notes: list[ScalerNote]
    """Notes of its autoscaler."""


class Cloud:
    """The parts of Google's APIs that the reconciler needs.

    Args:
        pause: Sleeps between two tries.
        clock: Monotonic seconds, for the run's time limit.
    """

    def __init__(
        self,
        project: str,
        region: str,
        bucket: str,
        session: Session,
        *,
        pause: Any = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = f"projects/{project}/regions/{region}"
        self.project, self.bucket = project, bucket
        self._session, self._pause = session, pause
        self._clock = clock
        self._began = clock()
        self.skew = 0.0
        """Offset of the cloud's clock from this one, from its answers."""

    def now(self) -> float:
        """Epoch seconds by the cloud's clock."""
        return time.time() + self.skew

    # ---- reading ----------------------------------------------------------------------------------------------------

    def errors(self, manager: str) -> list[dict[str, Any]]:
        """Errors of a group, as many as can be read in time.

        Raises:
            CallError: They could not be read.
        """
        path = f"{self._groups}/{manager}/listErrors"
        errors: list[dict[str, Any]] = []
        for page in islice(self.pages("GET", path, {"maxResults": "500"}), ERROR_PAGES):
            errors += page.get("items", [])
            if self._clock() - self._began > ERROR_SECONDS:
                break
        return errors

    def read(self, wanted: FleetGroup, errors: Sequence[Mapping[str, Any]], notes: Notes) -> Reading:
        """A snapshot of a group.

        Raises:
            CallError: Part of it could not be read.
        """
        name = wanted.manager
        manager = self._compute("GET", f"instanceGroupManagers/{name}")
        autoscaler = self._compute("GET", f"autoscalers/{wanted.autoscaler}")
        at = self.now()
        pages = self.pages("POST", f"{self._groups}/{name}/listManagedInstances", {"maxResults": "500"})
        listed = [each for page in pages for each in page.get("managedInstances", [])]
        stockouts = [error_at(each) for each in errors if is_stockout(each.get("error", {}).get("code", ""))]
        failing = failing_since(errors)
        group = Group(
            market=wanted.market,
            machines=[machine_of(each, failing, notes) for each in listed],
            target=int(manager.get("targetSize", 0)),
            per_machine=wanted.per_machine,
            minimum=wanted.minimum,
            mode=autoscaler.get("autoscalingPolicy", {}).get("mode", "ON"),
            stockout_at=max(stockouts, default=None),
        )
        scaler = str(autoscaler.get("status", ""))
        details = [
            ScalerNote(one.get("type", ""), one.get("message", "")) for one in autoscaler.get("statusDetails", [])
        ]
        return Reading(group, texts_of(errors, listed, at), at, failures_of(errors, at), scaler, details)

    def backlog(self, subscription: str) -> list[Sample]:
        """Samples of the unacknowledged messages of a subscription; none if Monitoring has none.

        Raises:
            CallError: It could not be read.
        """
        now = self.now()
        answer = self._call(
            "GET",
            f"{base('MONITORING')}v3/projects/{self.project}/timeSeries",
            params={
                "filter": f'metric.type = "{BACKLOG}" AND resource.type = "pubsub_subscription" '
                f'AND resource.labels.subscription_id = "{subscription}"',
                "interval.startTime": iso(now - HISTORY_SECONDS),
                "interval.endTime": iso(now),
            },
        )
        sums: dict[float, float] = {}
        for series in answer.get("timeSeries", []):
            for point in series.get("points", []):
                at = epoch(point["interval"]["endTime"])
                sums[at] = sums.get(at, 0.0) + float(point["value"].get("int64Value", 0))
        return [Sample(at, value) for at, value in sums.items()]

    def notes(self) -> Notes:
        """Recent reports of machines in the store.

        Raises:
            CallError: It could not be listed.
        """
        # A record's name begins with its time; an old host's begins with the machine and sorts after all others.
        since = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.now() - BROKEN_SECONDS))
        broken = self._written(f"{FLEET_ERRORS}/", {"startOffset": f"{FLEET_ERRORS}/{since}"})
        return Notes({STAMP.sub("", name).removesuffix(".json"): at for name, at in broken.items()},
                     self._written(f"{FLEET_ALIVE}/", {}))  # fmt: skip

    def _written(self, prefix: str, more: Mapping[str, str]) -> dict[str, float]:
        query = {"prefix": prefix, "fields": "items(name,timeCreated),nextPageToken", **more}
        pages = self.pages("GET", f"{base('STORAGE')}storage/v1/b/{self.bucket}/o", query)
        objects = (each for page in islice(pages, NOTE_PAGES) for each in page.get("items", []))
        return {each["name"].removeprefix(prefix): epoch(each["timeCreated"]) for each in objects}

    # ---- changing ---------------------------------------------------------------------------------------------------

    def remove(self, manager: str, instances: Sequence[str]) -> None:
        """Delete machines, which lowers the group's target size by as many; those that are gone are skipped."""
        for start in range(0, len(instances), MOST_REMOVED):
            body = {"instances": list(instances[start : start + MOST_REMOVED]), "skipInstancesOnValidationError": True}
            self._compute("POST", f"instanceGroupManagers/{manager}/deleteInstances", json=body)

    def set_mode(self, autoscaler: str, mode: str) -> None:
        """Set only an autoscaler's mode."""
        body = {"autoscalingPolicy": {"mode": mode}}
        self._compute("PATCH", "autoscalers", params={"autoscaler": autoscaler}, json=body)

    def write(self, name: str, content: str, kind: str) -> None:
        """Write an object of the job store."""
        self._call(
            "POST",
            f"{base('STORAGE')}upload/storage/v1/b/{self.bucket}/o",
            params={"uploadType": "media", "name": name},
            data=content.encode(),
            headers={"Content-Type": kind},
            until=RUN_SECONDS + _REPORT_SECONDS,
        )

    # ---- calls ------------------------------------------------------------------------------------------------------

    @property
    def _groups(self) -> str:
        return f"{base('COMPUTE')}compute/v1/{self._place}/instanceGroupManagers"

    def _compute(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        return self._call(method, f"{base('COMPUTE')}compute/v1/{self._place}/{path}", **more)

    def pages(self, method: str, url: str, query: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """All pages of a listing."""
        page: dict[str, Any] = {}
        while True:
            more = {"pageToken": page["nextPageToken"]} if page else {}
            yield (page := self._call(method, url, params={**query, **more}))
            if not page.get("nextPageToken"):
                return

    def _call(self, method: str, url: str, until: float = RUN_SECONDS, **more: Any) -> dict[str, Any]:
        return _document(self.answer(method, url, until, **more), method, url)

    def answer(self, method: str, url: str, until: float = RUN_SECONDS, **more: Any) -> Any:
        """Make a call, with retries: every call here may be made twice. Returns its successful response."""
        for left in reversed(range(_TRIES)):
            code, problem, seconds = 0, "", self._began + until - self._clock()
            if seconds <= 0:
                raise LateError(f"{method} {url.partition('?')[0]}: not called, the run is out of time")
            try:
                answer = self._session.request(method, url, timeout=min(seconds, _TIMEOUT_SECONDS), **more)
            except Exception as error:
                problem, passing = f"{type(error).__name__}: {error}", True
            else:
                self._look_at_clock(answer.headers)
                if answer.status_code < 300:
                    return answer
                code = answer.status_code
                problem = f"{answer.status_code} {answer.text[:300]}"
                passing = answer.status_code in (408, 429) or answer.status_code >= 500
            if not left or not passing:
                raise CallError(f"{method} {url.partition('?')[0]}: {problem}", code)
            self._pause(1.0)
        raise AssertionError("unreachable")

    def blocks(self, url: str) -> Iterator[bytes]:
        """The content of an object of the job store, as it comes: its writer chose its size and its encoding.

        Cloud Storage unpacks what was stored compressed. Source: https://cloud.google.com/storage/docs/transcoding

        Raises:
            CallError: It could not be read.
        """
        plain = {"Accept-Encoding": "identity"}
        with closing(self.answer("GET", url, params={"alt": "media"}, headers=plain, stream=True)) as answer:
            try:
                for block in answer.iter_content(_BLOCK_BYTES):
                    if self._clock() - self._began > RUN_SECONDS:
                        raise LateError(f"GET {url}: not read to its end, the run is out of time")
                    yield block
            except OSError as error:
                raise CallError(f"GET {url}: {type(error).__name__}") from None

    def _look_at_clock(self, headers: Mapping[str, str]) -> None:
        stamp = headers.get("Date")
        if stamp:
            self.skew = parsedate_to_datetime(stamp).timestamp() - time.time()


def _document(answer: Any, method: str, url: str) -> dict[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        raise CallError(f"{method} {url}: the answer is not JSON") from None
    if not isinstance(document, dict):
        raise CallError(f"{method} {url}: the answer is not an object")
    return document


def base(api: str) -> str:
    """The address of an API."""
    return os.environ.get(f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{api}") or _BASES[api]
