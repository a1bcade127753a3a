"""Pub/Sub, Monitoring and Logging in this process, behind the HTTP that the client really sends.

Each request is checked against Google's discovery documents (localcloud's reading of them), so an unknown field or path
is refused. How Google acts beyond that is written down here, not proved.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests
from google.oauth2.credentials import Credentials
from requests.adapters import BaseAdapter

from localcloud.gcp import discovery
from localcloud.gcp.filters import matches
from localcloud.gcp.wire import Request, RestError
from tests.unit.client_fakes import descriptor, queue
from tidemill.clouds.gcp import logs as gcp_logs
from tidemill.clouds.gcp import session as gcp_session
from tidemill.clouds.gcp.session import GoogleSession
from tidemill.descriptor import Descriptor, GcpQueue, Image, Machine, Queue

PROJECT = "vision-dev-1"
BUCKET = f"projects/{PROJECT}/locations/europe-west1/buckets/vision-dev"
APIS = {"pubsub": "pubsub", "monitoring": "monitoring", "logging": "logging", "artifactregistry": "artifactregistry"}
Answer = tuple[int, dict[str, Any]]


def gcp_queue(name: str = "cpu", **changes: Any) -> Queue:
    names = GcpQueue(
        topic=f"projects/{PROJECT}/topics/{name}",
        subscription=f"projects/{PROJECT}/subscriptions/{name}",
        dead_letters=f"projects/{PROJECT}/subscriptions/{name}-dead",
    )
    image = Image(ref=f"europe-west1-docker.pkg.dev/{PROJECT}/vision-dev/preprocess@sha256:{'a' * 64}")
    machines = [Machine(type=f"{family}-standard-16", cpus=16, memory_mib=65536) for family in ("n2", "n2d")]
    values = {"aws": None, "gcp": names, "images": {"default": image}, "machines": machines}
    return queue(**(values | changes))


def gcp_descriptor(store: str = "memory://", **changes: Any) -> Descriptor:
    values: dict[str, Any] = {"cloud": "gcp", "region": "europe-west1", "account": PROJECT, "log_group": BUCKET}
    queues = {"cpu": gcp_queue(), "long": gcp_queue("long")}
    return descriptor(store, **(values | {"queues": queues} | changes))


def names_of(queue: Queue) -> GcpQueue:
    """What Pub/Sub calls a queue's parts."""
    assert queue.gcp is not None
    return queue.gcp


@dataclass
class Message:
    """A message in a subscription."""

    attributes: dict[str, str]
    ack_id: str = ""
    """Id of its current lease."""


@dataclass
class FakeGoogle(BaseAdapter):
    """The front. Tests set and read its attributes."""

    now: float = field(default_factory=time.time)
    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Topics, subscriptions and images by name; what a registry has under its paths, too."""
    messages: dict[str, list[Message]] = field(default_factory=dict)
    """Messages by subscription."""
    points: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """Time and backlog, by the subscription's short name; the age of the oldest message by `<name>/oldest`."""
    entries: list[dict[str, Any]] = field(default_factory=list)
    published: list[int] = field(default_factory=list)
    """Number of messages in each publish request."""
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """API, path and body."""
    headers: list[dict[str, str]] = field(default_factory=list)
    refuse: Callable[[str, str], Answer | Exception | None] = lambda api, path: None
    """Called before each call; an answer or an exception replaces the real one."""
    page: int = 2

    def __post_init__(self) -> None:
        self._ids = itertools.count(1)
        for made in gcp_descriptor().queues.values():
            self.add(names_of(made))

    def add(self, names: GcpQueue) -> None:
        """A queue's topic and subscriptions."""
        self.resources[names.topic] = {"name": names.topic}
        dead = f"{names.topic}-dead"
        for name, topic in ((names.subscription, names.topic), (names.dead_letters, dead)):
            self.resources[name] = {"name": name, "topic": topic, "messageRetentionDuration": "2678400s"}
            self.messages[name] = []

    def session(self, monkeypatch: Any, credentials: Any = None) -> GoogleSession:
        """A session whose HTTP ends here, and which does not sleep."""

        def pooled(session: requests.Session) -> requests.Session:
            session.mount("https://", self)
            session.mount("http://", self)
            return session

        monkeypatch.setattr(gcp_session, "_pooled", pooled)
        monkeypatch.setattr(gcp_session, "PAUSES", (0.0,) * 6)
        monkeypatch.setattr(gcp_logs, "READS", gcp_logs.ReadLimit(most=1000))
        return GoogleSession(PROJECT, credentials or Credentials(token="ya29.t", account="ada@example.com"))

    # ---- HTTP ---------------------------------------------------------------------------------------------------

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        parts = urlsplit(request.url or "")
        api, path = (parts.hostname or "").partition(".")[0], parts.path.lstrip("/")
        is_json = request.headers.get("Content-Type") == "application/json"
        body = json.loads(_bytes(request)) if is_json else {}
        self.calls.append((api, path, body))
        self.headers.append({k.lower(): str(v) for k, v in request.headers.items()})
        refused = self.refuse(api, path)
        if isinstance(refused, Exception):
            raise refused
        status, value = refused or self._answer(api, request, parts, body)
        made = requests.Response()
        made.status_code, made.url, made.request = status, request.url or "", request
        made.headers["Date"] = formatdate(self.now, usegmt=True)
        made.raw = io.BytesIO(json.dumps(value).encode())
        return made

    def close(self) -> None:
        pass

    def _answer(self, api: str, request: requests.PreparedRequest, parts: Any, body: dict[str, Any]) -> Answer:
        if api.endswith("-docker"):
            found = self.resources.get(parts.path.lstrip("/"))
            return (200, found) if found else (404, {"errors": [{"code": "MANIFEST_UNKNOWN"}]})
        asked = Request(api, request.method or "", parts.path.lstrip("/"), parse_qs(parts.query), {}, _bytes(request))
        try:
            call = discovery.understand(asked)
            return 200, getattr(self, "_" + call.id.replace(".", "_").lower())(call.name, call.params, body)
        except RestError as error:
            return error.code, {"error": {"code": error.code, "message": error.message, "status": error.status}}

    def _resource(self, name: str) -> dict[str, Any]:
        if name not in self.resources:
            raise RestError(404, f"Resource not found (resource={name.rpartition('/')[2]}).")
        return self.resources[name]

    # ---- Pub/Sub ------------------------------------------------------------------------------------------------

    def _pubsub_projects_topics_get(self, name: str, params: Any, body: Any) -> dict[str, Any]:
        return self._resource(name)

    _pubsub_projects_subscriptions_get = _pubsub_projects_topics_get
    _artifactregistry_projects_locations_repositories_dockerimages_get = _pubsub_projects_topics_get

    def _pubsub_projects_topics_publish(self, name: str, params: Any, body: Any) -> dict[str, Any]:
        self._resource(name)
        if len(body["messages"]) > 1000 or len(json.dumps(body)) > 4 << 20:
            raise RestError(400, "Request payload size exceeds the limit")
        self.published.append(len(body["messages"]))
        readers = [sub for sub, made in self.resources.items() if made.get("topic") == name]
        for message in body["messages"]:
            for reader in readers:
                self.messages[reader].append(Message(message["attributes"]))
        return {"messageIds": [str(next(self._ids)) for _ in body["messages"]]}

    def _pubsub_projects_subscriptions_pull(self, name: str, params: Any, body: Any) -> dict[str, Any]:
        self._resource(name)
        free = [message for message in self.messages[name] if not message.ack_id]
        taken = free[: min(self.page, body["maxMessages"])]
        for message in taken:
            message.ack_id = f"ack-{next(self._ids)}"
        received = [{"ackId": one.ack_id, "message": {"attributes": one.attributes}} for one in taken]
        return {"receivedMessages": received} if received else {}

    def _pubsub_projects_subscriptions_modifyackdeadline(self, name: str, params: Any, body: Any) -> dict[str, Any]:
        for message in self.messages[name]:
            if message.ack_id in body["ackIds"] and not body["ackDeadlineSeconds"]:
                message.ack_id = ""
        return {}

    def _pubsub_projects_subscriptions_acknowledge(self, name: str, params: Any, body: Any) -> dict[str, Any]:
        self.messages[name] = [one for one in self.messages[name] if one.ack_id not in body["ackIds"]]
        return {}

    def kill(self, name: str, job: str, chunks: list[int], deliveries: int = 100) -> None:
        """Deliver messages of a subscription as often as allowed: they become dead letters."""
        for message in list(self.messages[name]):
            if message.attributes["job"] == job and int(message.attributes["chunk"]) in chunks:
                self.messages[name].remove(message)
                count = {"CloudPubSubDeadLetterSourceDeliveryCount": str(deliveries)}
                self.messages[f"{name}-dead"].append(Message(message.attributes | count))

    # ---- Monitoring and Logging ---------------------------------------------------------------------------------

    def _monitoring_projects_timeseries_list(self, name: str, params: Any, body: Any) -> dict[str, Any]:
        short = re.search(r'subscription_id="([^"]+)"', params["filter"])
        assert short, params
        name = short[1] + "/oldest" * ("oldest_unacked" in params["filter"])
        points = [
            {"interval": {"startTime": _stamp(at), "endTime": _stamp(at)}, "value": {"int64Value": str(count)}}
            for at, count in sorted(self.points.get(name, ()), reverse=True)
            if params["interval.startTime"] <= _stamp(at) <= params["interval.endTime"]
        ]
        return {"timeSeries": [{"points": points}]} if points else {}

    def _logging_entries_list(self, name: str, params: Any, body: Any) -> dict[str, Any]:
        assert body["resourceNames"] == [f"{BUCKET}/views/_AllLogs"]
        found = sorted((one for one in self.entries if matches(body["filter"], one)), key=lambda one: one["timestamp"])
        start = int(body.get("pageToken", 0))
        end = start + self.page
        return {"entries": found[start:end]} | ({"nextPageToken": str(end)} if end < len(found) else {})

    def line(self, at: float, **fields: Any) -> None:
        """A line that a worker printed."""
        numbers = {key: float(value) if isinstance(value, int) else value for key, value in fields.items()}
        number = len(self.entries)
        self.entries.append({"timestamp": _stamp(at), "insertId": f"e{number}", "jsonPayload": numbers})


def _bytes(request: requests.PreparedRequest) -> bytes:
    assert request.body is None or isinstance(request.body, (str, bytes))
    return request.body.encode() if isinstance(request.body, str) else request.body or b""


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
