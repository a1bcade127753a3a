"""An S3 with one bucket on a loopback port; the test decides its answers. It checks no signature. Whether S3 answers so
is not proved here: docs/cloud-facts.md says where each answer comes from."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

ERRORS = {
    "403": "AccessDenied",
    "409": "ConditionalRequestConflict",
    "500": "InternalError",
    "503": "SlowDown",
}
PAGE = 1000
SINCE = 1795248000.0
"""2026-11-21T08:00:00Z, in seconds since the epoch."""
_DATE = "Sat, 21 Nov 2026 08:00:00 GMT"


def _stamp(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}Z"


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    """Serve in a thread of its own until the block ends."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join(timeout=60)
        server.server_close()


class LoopbackS3:
    """A bucket.

    Attributes:
        objects: Its objects.
        hang_seconds: The longest time that a request hangs.
        missing: The error for a missing object.
        modified: When an object was written, in seconds since the epoch, where that is not always the same.
    """

    missing = ("404", "NoSuchKey")
    hang_seconds = 2.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.objects: dict[str, bytes] = {}
        self.modified: dict[str, float] = {}
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"bucket": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a client of this store."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-west-2",
        }

    @contextmanager
    def running(self) -> Iterator[Any]:
        with serving(self._server):
            yield self

    # ---- decided by the test ------------------------------------------------------------------------------------

    def fault(self, method: str, key: str, conditional: bool) -> str | None:
        """How this request fails, or None.

        Before anything is done: one of `ERRORS`, ``drop`` (the connection), ``hang-drop``. After it was done: ``hang``,
        ``500-after``, ``drop-after``, ``hang-drop-after``.
        """
        return None

    def write(self, key: str, body: bytes, conditional: bool) -> bool:
        """Write an object. Returns whether it was written."""
        with self.lock:
            if conditional and key in self.objects:
                return False
            self.objects[key] = body
            return True

    def delete(self, keys: list[str]) -> None:
        with self.lock:
            for key in keys:
                self.objects.pop(key, None)

    def keys(self, prefix: str = "", after: str = "") -> list[str]:
        with self.lock:
            return sorted(key for key in self.objects if key.startswith(prefix) and key > after)


class _Handler(BaseHTTPRequestHandler):
    bucket: LoopbackS3
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 120

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        key, conditional = self._key(), self.headers.get("If-None-Match") == "*"
        fault = self.bucket.fault("PUT", key, conditional) or ""
        if self._failed_before(fault):
            return
        if not self.bucket.write(key, body, conditional):
            self._error("412", "PreconditionFailed")
        elif fault == "500-after":
            self._error("500", ERRORS["500"])
        elif fault.endswith("drop-after"):
            self._drop(fault)
        else:
            self._hang(fault)
            self._answer(200, b"", ETag='"1"')

    def do_GET(self) -> None:
        key = self._key()
        fault = self.bucket.fault(self.command, key, False) or ""
        if self._failed_before(fault):
            return
        self._hang(fault)
        if not key:
            self._answer(200, self._listing())
        elif (data := self.bucket.objects.get(key)) is None:
            self._error(*self.bucket.missing)
        else:
            self._send(data)

    do_HEAD = do_GET  # noqa: N815 the name that the server looks for

    def do_DELETE(self) -> None:
        self.bucket.delete([self._key()])
        self._answer(204, b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.bucket.delete([unquote(key) for key in re.findall(r"<Key>(.*?)</Key>", body.decode())])
        self._answer(200, b"<DeleteResult></DeleteResult>")

    def _failed_before(self, fault: str) -> bool:
        if fault in ERRORS:
            self._error(fault, ERRORS[fault])
        elif fault in ("drop", "hang-drop"):
            self._drop(fault)
        else:
            return False
        return True

    def _drop(self, fault: str) -> None:
        self._hang(fault)
        self.close_connection = True
        self.connection.close()

    def _hang(self, fault: str) -> None:
        if fault.startswith("hang"):
            time.sleep(random.Random(self.path).uniform(0.5, 1.0) * self.bucket.hang_seconds)

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix(f"/{self.bucket.name}").removeprefix("/")

    def _send(self, data: bytes) -> None:
        stamps = {"ETag": '"1"', "Last-Modified": _DATE}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        if wanted:
            first, last = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
            span = f"bytes {first}-{last}/{len(data)}"
            self._answer(206, data[first : last + 1], **stamps, **{"Content-Range": span})
        else:
            self._answer(200, data, **stamps)

    def _listing(self) -> bytes:
        query = parse_qs(urlsplit(self.path).query)
        prefix, after = query.get("prefix", [""])[0], query.get("start-after", [""])[0]
        after = query.get("continuation-token", [after])[0]
        found = self.bucket.keys(prefix, after)
        folders: list[str] = []
        if query.get("delimiter"):
            folders = sorted(
                {prefix + key[len(prefix) :].split("/")[0] + "/" for key in found if "/" in key[len(prefix) :]}
            )
            found = [key for key in found if "/" not in key[len(prefix) :]]
        cut = len(found) > PAGE
        found = found[:PAGE]
        more = f"<NextContinuationToken>{found[-1]}</NextContinuationToken>" if cut else ""
        sizes = {key: len(self.bucket.objects.get(key, b"")) for key in found}
        contents = "".join(
            f"<Contents><Key>{key}</Key><Size>{size}</Size><ETag>1</ETag>"
            f"<LastModified>{_stamp(self.bucket.modified.get(key, SINCE))}</LastModified></Contents>"
            for key, size in sizes.items()
        )
        common = "".join(f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>" for folder in folders)
        return (
            f"<ListBucketResult><Name>{self.bucket.name}</Name><Prefix>{prefix}</Prefix>"
            f"<KeyCount>{len(found)}</KeyCount><IsTruncated>{str(cut).lower()}</IsTruncated>{more}{contents}{common}"
            "</ListBucketResult>"
        ).encode()

    def _error(self, code: str, name: str) -> None:
        self._answer(int(code), f"<Error><Code>{name}</Code><Message>{name}</Message></Error>".encode())

    def _answer(self, code: int, body: bytes, **headers: Any) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionError, ValueError, TimeoutError):
            # A client that was killed, or our own drop.
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 as the base calls it
        return
