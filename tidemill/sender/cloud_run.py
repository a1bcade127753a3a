"""The server of a Cloud Run service: each request of Cloud Scheduler is an event.

Source: https://cloud.google.com/run/docs/container-contract
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from tidemill.sender.answering import Answer, answered

SCHEDULED = "X-CloudScheduler-ScheduleTime"
"""The time at which a job was due, which its retries have, too.
Source: https://cloud.google.com/scheduler/docs/reference/rest/v1/projects.locations.jobs#HttpTarget"""
MOST_BYTES = 100_000
"""Cloud Scheduler sends a body of at most 100 kB: https://cloud.google.com/scheduler/quotas"""


def server(port: int, answer: Answer, host: str = "") -> HTTPServer:
    """A server of events, one after the other; `serve_forever` starts it.

    Args:
        port: Port to listen on, 0 for a free one.
        answer: Answers an event; what it raises is the event's failure, after which Cloud Scheduler tries again.
        host: Address to listen on; empty for all, as Cloud Run demands.
    """

    class EventHandler(BaseHTTPRequestHandler):
        timeout = 60  # for the request itself

        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("Content-Length") or 0), MOST_BYTES))
            try:
                event = _event(body, self.headers.get(SCHEDULED))
            except ValueError as error:
                self._reply(HTTPStatus.BAD_REQUEST, json.dumps({"errorMessage": str(error)}).encode())
                return
            done, content = answered(answer, event)
            self._reply(HTTPStatus.OK if done else HTTPStatus.INTERNAL_SERVER_ERROR, content)

        def _reply(self, status: HTTPStatus, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class has it so
            """Cloud Run logs requests itself."""

    return HTTPServer((host, port), EventHandler)


def _event(body: bytes, scheduled: str | None) -> Mapping[str, Any]:
    """The event of a request; that of a job which a person starts has the time of now.

    Raises:
        ValueError: The body is not a JSON object.
    """
    event = json.loads(body or b"{}")
    if not isinstance(event, dict):
        raise ValueError(f"the body is {type(event).__name__}, not an object")
    return {**event, "time": scheduled or datetime.now(UTC).isoformat()} if "schedule" in event else event
