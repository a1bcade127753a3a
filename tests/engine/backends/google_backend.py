"""A backend of the engine in a bucket of localcloud's Cloud Storage.

The engine's client sends its calls to STORAGE_EMULATOR_HOST, without a login. What stands there adds the owner's.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.engine.google import Google

_PER_HOP = {"host", "connection", "accept-encoding", "content-length", "transfer-encoding"}


@contextmanager
def emulator(google: Google) -> Iterator[str]:
    """The value of STORAGE_EMULATOR_HOST while the block runs."""
    storage = urlsplit(google.cloud.env["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"])

    class Forwarding(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            head = {key: value for key, value in self.headers.items() if key.lower() not in _PER_HOP}
            head |= {"Authorization": f"Bearer {google.token()}"}
            assert storage.hostname is not None
            path, _, query = self.path.partition("?")
            # The client writes out every parameter's default, and asks for access lists, which such buckets lack.
            asked = [each for each in parse_qsl(query) if each[1] != "false" and each[0] != "projection"]
            there = http.client.HTTPConnection(storage.hostname, storage.port, timeout=60)
            there.request(self.command, f"{storage.path.rstrip('/')}{path}?{urlencode(asked)}", self._body(), head)
            answer = there.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for key, value in answer.getheaders():
                if key.lower() not in _PER_HOP:
                    self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            there.close()

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            chunks = []
            while length := int(self.rfile.readline(), 16):
                chunks.append(self.rfile.read(length))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815 (the names of http.server)

        def log_request(self, code: object = "-", size: object = "-") -> None:
            """Write no access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Forwarding)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
