"""Requests, answers and errors of Google's APIs, and the HTTP/1.1 server that carries them."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from localcloud.faults import DropConnectionError

STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
          409: "ALREADY_EXISTS", 412: "FAILED_PRECONDITION", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL",
          501: "UNIMPLEMENTED", 503: "UNAVAILABLE"}  # fmt: skip
"""google.rpc.Code of each HTTP status: https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto"""
REASON = {400: "invalid", 401: "authError", 403: "forbidden", 404: "notFound", 409: "alreadyExists"}


class RestError(Exception):
    """An error in Google's JSON shape; `field` names the wrong part of the request, `reason` the cause."""

    def __init__(self, code: int, message: str, status: str = "", field: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.code, self.message, self.field, self.reason = code, message, field, reason
        self.status = status or STATUS.get(code, "UNKNOWN")

    def response(self) -> Response:
        error: dict[str, Any] = {"code": self.code, "message": self.message, "status": self.status}
        error["errors"] = [
            {"message": self.message, "domain": "global", "reason": REASON.get(self.code, "backendError")}
        ]
        if self.field:
            broken = [{"field": self.field, "description": self.message}]
            error["details"] = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": broken}]
        if self.reason:
            # https://cloud.google.com/apis/design/errors
            known = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "domain": "googleapis.com"}
            error["details"] = [*error.get("details", []), {**known, "reason": self.reason}]
        return Response.of({"error": error}, self.code)


@dataclass
class Response:
    """An answer; `Response.of(value)` makes a JSON one."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, status: int = 200) -> Response:
        return cls(status, json.dumps(value).encode(), {"Content-Type": "application/json; charset=UTF-8"})

    def json(self) -> Any:
        return json.loads(self.body or b"null")


@dataclass
class Request:
    """One call of an API.

    Attributes:
        api: First part of the address, such as `pubsub`.
        path: Path below the API, still percent-encoded: `v1/projects/p/topics/t:publish`.
        query: Parameters; each value is a list.
        headers: Names in lower case.
        principal: `serviceAccount:…`, `user:…`, or empty without a token.
        call: The parsed call (`localcloud.gcp.discovery.Call`); None for raw plug-ins.
    """

    api: str
    method: str
    path: str
    query: dict[str, list[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    principal: str = ""
    call: Any = None

    def json(self) -> Any:
        """The body's JSON, `{}` when there is none."""
        try:
            return json.loads(self.body or b"{}")
        except ValueError as error:
            raise RestError(400, f"Invalid JSON payload received. {error}") from None


def stamp(at: float) -> str:
    """Epoch seconds as Google's APIs write them."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def epoch(text: str) -> float:
    """Epoch seconds of a time in a request.

    Raises:
        RestError: 400: it is none.
    """
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise RestError(400, f"{text!r} is no time.") from None


Handle = Callable[[Request], Response]


def handler(handle: Handle, now: Callable[[], float]) -> type[BaseHTTPRequestHandler]:
    """The handler class that calls `handle` with the first part of the path as `api`; `now` sets the Date header."""

    class ApiHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            api, _, path = parts.path.lstrip("/").partition("/")
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self._chunks() if "chunked" in headers.get("transfer-encoding", "") else self._sized(headers)
            request = Request(api, self.command, path, parse_qs(parts.query, True), headers, body)
            try:
                response = handle(request)
            except RestError as error:
                response = error.response()
            except DropConnectionError:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                response = RestError(500, f"localcloud failed: {error!r}").response()
            self._answer(response)

        def _sized(self, headers: Mapping[str, str]) -> bytes:
            return self.rfile.read(int(headers.get("content-length") or 0))

        def _chunks(self) -> bytes:
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(parts)

        def _answer(self, response: Response) -> None:
            self.send_response(response.status)
            for name, value in response.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in response.headers and response.status not in (204, 304):
                self.send_header("Content-Length", str(len(response.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(response.body)
            self.wfile.flush()

        def date_time_string(self, timestamp: float | None = None) -> str:
            return super().date_time_string(now() if timestamp is None else timestamp)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 its base class's name
            """Calls are counted, not printed."""

    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
        setattr(ApiHandler, f"do_{method}", ApiHandler._serve)
    return ApiHandler


class ServedApi:
    """A listening socket with a server, one thread per connection; it may be in any network namespace."""

    def __init__(self, listening: socket.socket, handle: Handle, now: Callable[[], float] = time.time) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(handle, now), bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listening.dup()
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.port = listening.getsockname()[1]
        self._server.server_name, self._server.server_port = "localcloud", self.port
        run = {"poll_interval": 0.2}
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs=run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop accepting and close the socket. Open connections end with their clients."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)


def listen(port: int = 0) -> socket.socket:
    """A listening socket on 127.0.0.1; port 0 takes a free one."""
    return socket.create_server(("127.0.0.1", port), backlog=512)
