"""A front before a store's server that loses replies and throttles, so that each server can be asked how our client
takes it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.loopback_s3 import serving

SECONDS = 60
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "server", "date"}


class Answer(NamedTuple):
    """A server's answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Front:
    """Passes requests on, but for those that `faults` names.

    Attributes:
        faults: What happens to the next requests of a method, in order: ``lost`` (done, its reply dropped), ``cut``
            (half of its reply), or a status such as ``503``, answered without asking the server.
        seen: The methods of the requests that came.
    """

    def __init__(self, port: int) -> None:
        self.backend = port
        self.faults: dict[str, list[str]] = {}
        self.seen: list[str] = []
        self.lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"front": self}))
        self._server.daemon_threads = True
        self.port = self._server.server_port

    @contextmanager
    def running(self) -> Iterator[Front]:
        with serving(self._server):
            yield self

    def fault(self, method: str) -> str:
        """What happens to this request; empty for nothing."""
        with self.lock:
            self.seen.append(method)
            waiting = self.faults.get(method)
            return waiting.pop(0) if waiting else ""

    def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """The server's answer."""
        server = http.client.HTTPConnection("127.0.0.1", self.backend, timeout=SECONDS)
        try:
            server.putrequest(method, path, skip_host="host" in map(str.lower, headers), skip_accept_encoding=True)
            for name, value in headers.items():
                server.putheader(name, value)
            server.endheaders(body)
            answer = server.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            server.close()


class _Handler(BaseHTTPRequestHandler):
    front: Front
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = SECONDS

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.front.fault(self.command)
        if fault.isdigit():
            self._send(
                int(fault), {}, b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
            )
            return
        answer = self.front.ask(self.command, self.path, dict(self.headers.items()), body)
        if fault == "lost":
            self.close_connection = True
        else:
            self._send(*answer, cut=fault == "cut")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass  # noqa: N815 the names that the server looks for

    def _send(self, status: int, headers: Mapping[str, str], data: bytes, *, cut: bool = False) -> None:
        self.send_response_only(status)
        length = headers.get("Content-Length") if self.command == "HEAD" else None
        for name, value in headers.items():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[: len(data) // 2] if cut else data)
        if cut:
            self.close_connection = True

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 as the base calls it
        return
