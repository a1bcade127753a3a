"""HTTP/1.1 with keep-alive for WSGI apps, on sockets that may come from another network namespace.

werkzeug's own handler closes each connection after one answer; a client with a pool (boto3, obstore) would then
open a socket per request. This handler reads the whole request first, so keeping the connection is safe.
"""

from __future__ import annotations

import io
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import BaseWSGIServer, make_server

from localcloud.faults import DropConnectionError

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
WsgiApp = Callable[[Environ, StartResponse], Iterable[bytes]]

BODILESS = {"204", "304"}


class KeepAliveHandler(MotoRequestHandler):
    """One connection: many requests, each answered in one write."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 0

    def run_wsgi(self) -> None:
        environ = self.make_environ()
        body = self._read_body(environ)
        environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "localcloud.body": body}
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[..., None]:
            started.append((status, headers))
            return lambda data: None

        try:
            answer = self.server.app(environ, start_response)
            try:
                content = b"".join(answer)
            finally:
                getattr(answer, "close", lambda: None)()
            status, headers = started[-1]
        except DropConnectionError:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        except Exception:
            traceback.print_exc(file=sys.stderr)
            status, headers, content = (
                "500 Internal Server Error",
                [("Content-Type", "text/plain")],
                b"localcloud failed",
            )
        self._answer(status, headers, content)

    def _read_body(self, environ: Environ) -> bytes:
        if "wsgi.input_terminated" in environ:
            return io.BufferedReader(environ["wsgi.input"]).read()
        return self.rfile.read(int(environ.get("CONTENT_LENGTH") or 0))

    def _answer(self, status: str, headers: list[tuple[str, str]], content: bytes) -> None:
        code, _, reason = status.partition(" ")
        self.send_response_only(int(code), reason)
        self.send_header("Date", self.date_time_string())
        with_body = self.command != "HEAD" and code not in BODILESS
        named = {name.lower() for name, _ in headers}
        for name, value in headers:
            if name.lower() not in {"connection", "date", "transfer-encoding"}:
                if name.lower() == "content-length" and with_body:
                    value = str(len(content))  # noqa: PLW2901
                self.send_header(name, value)
        if "content-length" not in named and code not in BODILESS:
            self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        head = b"".join([*self._headers_buffer, b"\r\n"])  # type: ignore[attr-defined]
        self._headers_buffer: list[bytes] = []
        self.wfile.write(head + content if with_body else head)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Print nothing; the gateway counts requests."""


class ServedApp:
    """A socket with its server.

    Attributes:
        port: The socket's port.
    """

    def __init__(self, server: BaseWSGIServer, thread: threading.Thread) -> None:
        self._server = server
        self._thread = thread
        self.port = server.port

    def close(self) -> None:
        """Stop accepting and close the socket. Open connections end with their clients."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)


def serve_socket(sock: socket.socket, app: WsgiApp) -> ServedApp:
    """Serve ``app`` on a listening TCP socket, with one thread per connection.

    Args:
        sock: A listening socket of any network namespace. The server keeps its own descriptor, so the caller may close
            this one.
        app: A WSGI app. ``environ["localcloud.body"]`` holds the request's body.
    """
    host, port = sock.getsockname()[:2]
    server = make_server(host, port, app, threaded=True, request_handler=KeepAliveHandler, fd=sock.fileno())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
    thread.start()
    return ServedApp(server, thread)


def respond(
    start_response: StartResponse, status: int, content: bytes, content_type: str, **headers: str
) -> list[bytes]:
    """Answer with a body; underscores in header names become dashes."""
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    start_response(f"{status} {'OK' if status < 400 else 'Error'}", [("Content-Type", content_type), *named])
    return [content]
