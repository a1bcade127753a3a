"""A machine on Compute Engine and its subscription, on loopback: metadata, and Pub/Sub's pull, acknowledge and
modifyAckDeadline. The subscription's clock is the test's: no deadline passes unless a test says so."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.loopback_s3 import serving
from tests.worker.containers import Process, Ran, Team, TeamJob, ran
from tests.worker.forked import start

ROOT = Path(__file__).parents[2]
SUBSCRIPTION = "projects/p-1/subscriptions/cpu"
HASTY = "tests.worker.hasty"
OWN_DEADLINE = 10
"""The subscription's deadline, in seconds: the shortest that Pub/Sub allows."""


@dataclass
class Message:
    """A message."""

    id: str
    attributes: dict[str, str]
    deliveries: int = 0
    until: float = 0.0
    """Other workers do not get it before this time."""
    acked: bool = False
    extended: int = 0
    """How often its current lease was extended."""
    nacks: int = 0
    done_at_ack: bool | None = None
    """Whether its chunk's record was in the store when it was acknowledged."""

    @property
    def ack_id(self) -> str:
        """The id of the current delivery."""
        return f"{self.id}.{self.deliveries}"


@dataclass
class Gce:
    """A project with one subscription, whose machines are processes."""

    team: Team
    now: float = 0.0
    messages: list[Message] = field(default_factory=list)
    preempted: bool = False
    refuses: tuple[int, str] | None = None
    """The answer to every call to Pub/Sub, instead of the real one."""
    failures: dict[str, int] = field(default_factory=dict)
    """By method: how many calls get 503 before one is accepted."""
    tokens: int = 0
    """How many tokens were issued."""
    issue: Callable[[], str] | None = None
    """Issues another cloud's tokens instead."""
    pulls: int = 0
    empty_pulls: int = 0
    entries: list[dict[str, Any]] = field(default_factory=list)
    """Entries written to the log, each with its log and resource."""

    def __post_init__(self) -> None:
        self.changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))

    @contextlib.contextmanager
    def running(self) -> Iterator[Gce]:
        with serving(self._server):
            yield self

    # ---- what a test does ---------------------------------------------------------------------------------------

    def publish(self, of: TeamJob, number: int = 0, **other: str) -> Message:
        """A chunk of a job, with attributes of the test's where it gives some."""
        attributes = {
            "job": of.spec.job,
            "round": "0",
            "chunk": str(number),
            "job_sha256": of.job_sha256,
            "round_sha256": of.round_sha256,
            **other,
        }
        message = Message(str(len(self.messages)), {name: value for name, value in attributes.items() if value})
        with self.changed:
            self.messages.append(message)
            self.changed.notify_all()
        return message

    def pass_time(self, seconds: float) -> None:
        """Advance the subscription's clock."""
        with self.changed:
            self.now += seconds
            self.changed.notify_all()

    def deliver_twice(self, message: Message) -> None:
        """Pub/Sub may deliver a message that a worker holds."""
        with self.changed:
            message.until = self.now
            self.changed.notify_all()

    def change(self, **values: Any) -> None:
        """Change what is answered."""
        with self.changed:
            for name, value in values.items():
                setattr(self, name, value)
            self.changed.notify_all()

    def environment(self, **extra: str) -> dict[str, str]:
        """A worker's environment, as the host's unit makes it."""
        base = f"127.0.0.1:{self._server.server_port}"
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/",
            "TIDEMILL_STORE": self.team.store.uri,
            "TIDEMILL_SCRATCH": str(self.team.scratch),
            "TIDEMILL_SUBSCRIPTION": SUBSCRIPTION,
            "TIDEMILL_SLOTS": "machine",
            "TIDEMILL_IDLE_SECONDS": "0.3",
            "TIDEMILL_RECLAIM_POLL_SECONDS": "0.1",
            "GCE_METADATA_HOST": base,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_PUBSUB": f"http://{base}/pubsub/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"http://{base}/logging/",
            **extra,
        }

    def start(self, module: str = HASTY, **extra: str) -> Process:
        """Start a machine's worker, or a mutant of it."""
        worker = start(module, self.environment(**extra))
        self.team.workers.append(worker)
        return worker

    def run(self, module: str = HASTY, **extra: str) -> Ran:
        """Run a machine's worker until it leaves."""
        return ran(self.start(module, **extra))

    # ---- what is answered ---------------------------------------------------------------------------------------

    def called(self, verb: str, body: dict[str, Any], gone: Callable[[], bool]) -> tuple[int, dict[str, Any]]:
        """A call to the subscription; `gone` says whether the caller does not wait for the answer any more."""
        with self.changed:
            if self.refuses:
                return _error(*self.refuses)
            if self.failures.get(verb):
                self.failures[verb] -= 1
                return _error(503, "try again")
            if verb == "pull":
                answer = self._pull(body, gone)
            else:
                answer = {"acknowledge": self._ack, "modifyAckDeadline": self._modify}[verb](body)
            self.changed.notify_all()
            return 200, answer

    def _pull(self, body: dict[str, Any], gone: Callable[[], bool]) -> dict[str, Any]:
        assert body == {"maxMessages": 1}
        self.pulls += 1
        # A held request, as in Pub/Sub but shorter.
        self.changed.wait_for(self._free, timeout=0.1)
        message = None if gone() else self._free()
        if message is None:
            self.empty_pulls += 1
            return {}
        message.deliveries += 1
        message.until, message.extended = self.now + OWN_DEADLINE, 0
        content = {"messageId": message.id, "publishTime": "2026-01-01T00:00:00Z", "attributes": message.attributes}
        received = {"ackId": message.ack_id, "message": content, "deliveryAttempt": message.deliveries}
        return {"receivedMessages": [received]}

    def _free(self) -> Message | None:
        return next((m for m in self.messages if not m.acked and m.until <= self.now), None)

    def _held(self, ack_ids: list[str]) -> list[Message]:
        """Messages held by these ids; ids of lost leases are ignored."""
        return [m for m in self.messages if m.ack_id in ack_ids and not m.acked and m.until > self.now]

    def _ack(self, body: dict[str, Any]) -> dict[str, Any]:
        for message in self._held(body["ackIds"]):
            message.acked = True
            folder = self.team.root / "store/jobs" / message.attributes.get("job", "none") / "r0/done"
            message.done_at_ack = any(folder.glob(f"*/{message.attributes.get('chunk')}.jsonl"))
        return {}

    def _modify(self, body: dict[str, Any]) -> dict[str, Any]:
        assert 0 <= body["ackDeadlineSeconds"] <= 600
        for message in self._held(body["ackIds"]):
            message.until = self.now + body["ackDeadlineSeconds"]
            if body["ackDeadlineSeconds"]:
                message.extended += 1
            else:
                message.nacks += 1
        return {}

    def logged(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """A write to the log. One that fails may have arrived anyway."""
        with self.changed:
            common = {"log": body["logName"], "resource": body["resource"]}
            known = {entry["insertId"] for entry in self.entries}
            self.entries += [{**common, **entry} for entry in body["entries"] if entry["insertId"] not in known]
            if self.failures.get("write"):
                self.failures["write"] -= 1
                return _error(503, "try again")
            return 200, {}

    def asked(self, path: str, query: dict[str, list[str]]) -> tuple[int, str, str]:
        """A question to the metadata server: code, text, etag."""
        with self.changed:
            if path == "instance/service-accounts/default/token":
                self.tokens += 1
                text = self.issue() if self.issue else f"token-{self.tokens}"
                return 200, json.dumps({"access_token": text, "expires_in": 3600, "token_type": "Bearer"}), ""
            if path in _PLACE:
                return 200, _PLACE[path], ""
            if path != "instance/preempted":
                return 404, "", ""
            if query.get("wait_for_change") == ["true"]:
                etag = query.get("last_etag", [""])[0]
                self.changed.wait_for(lambda: self._etag() != etag, timeout=min(5, int(query["timeout_sec"][0])))
            return 200, "TRUE" if self.preempted else "FALSE", self._etag()

    def _etag(self) -> str:
        return f"e{int(self.preempted)}"


_PLACE = {
    "instance/name": "cpu-spot-x1",
    "instance/zone": "projects/123/zones/us-central1-b",
    "instance/machine-type": "projects/123/machineTypes/n2-standard-2",
    "instance/scheduling/preemptible": "TRUE",
}


def _error(code: int, message: str) -> tuple[int, dict[str, Any]]:
    return code, {"error": {"code": code, "message": message}}


def _handler(gce: Gce) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            prefix = "/computeMetadata/v1/"
            if self.headers.get("Metadata-Flavor") != "Google" or not url.path.startswith(prefix):
                self._answer(403, b"")
                return
            code, text, etag = gce.asked(url.path.removeprefix(prefix), parse_qs(url.query))
            self._answer(code, text.encode(), etag)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name, _, verb = self.path.partition(":")
            if self.headers.get("Authorization") not in [f"Bearer token-{n + 1}" for n in range(gce.tokens)]:
                code, answer = _error(401, "the token is not valid")
            elif self.path == "/logging/v2/entries:write":
                code, answer = gce.logged(body)
            elif name != f"/pubsub/v1/{SUBSCRIPTION}":
                code, answer = _error(404, "Resource not found")
            else:
                code, answer = gce.called(verb, body, self._gone)
            self._answer(code, json.dumps(answer).encode())

        def _gone(self) -> bool:
            try:
                return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except OSError:
                return True

        def _answer(self, code: int, body: bytes, etag: str = "") -> None:
            # A killed worker does not wait for its answer.
            with contextlib.suppress(ConnectionError):
                self.send_response(code)
                if etag:
                    self.send_header("ETag", etag)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 as the base calls it
            return

    return Handler
