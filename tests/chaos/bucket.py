"""A loopback S3 that fails, by a seed, in every way that a worker has to live with; and the machines' metadata.

It knows what no real store would tell: every write, whether a committed object was ever replaced, and how often it
failed. It checks no signature and has one bucket.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

NAME = "store"
BEFORE = ("500", "503", "drop", "hang-drop")
AFTER = ("500-after", "drop-after", "hang", "hang-drop-after")
FAULTS = {"PUT": (*BEFORE, *AFTER), "GET": (*BEFORE, "hang"), "HEAD": (*BEFORE, "hang")}
KINDS = ("409", "500", "500-after", "drop", "drop-after", "hang", "hang-drop-after")
"""Every record is written by a conditional create. The first ones meet these, one each, whatever the seed draws."""
ONCE = re.compile(r"/done/|/rounds/|/job\.json$")
"""Objects that never change once they are there."""
_NAMES = {"500": "InternalError", "503": "SlowDown", "409": "ConditionalRequestConflict"}
_DATE = "Sat, 21 Nov 2026 08:00:00 GMT"


class Bucket:
    """The store of a chaos run.

    Args:
        seed: Decides which request fails how.
        rate: Share of requests that fail; conditional creates are answered with 409 four times as often.
        hang_seconds: The longest that it hangs.
    """

    def __init__(self, seed: int, rate: float, hang_seconds: float = 2.0) -> None:
        self.seed, self.rate, self.hang_seconds = seed, rate, hang_seconds
        self.objects: dict[str, bytes] = {}
        self.writes: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.replaced: list[str] = []
        """Objects of `ONCE` that were written again with other contents."""
        self.requests = 0
        self.doomed: set[str] = set()
        """Machines whose metadata shows a notice."""
        self.on_write: Callable[[str], None] = lambda key: None
        self.outage_until = 0.0
        self._asked: Counter[tuple[str, str]] = Counter()
        self._owed = list(KINDS)
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"bucket": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """What a client of this store has."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-west-2",
        }

    @contextmanager
    def running(self) -> Iterator[Bucket]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join(timeout=10)
            self._server.server_close()

    def fault(self, method: str, key: str, conditional: bool) -> str | None:
        """How this request fails, or None."""
        if time.monotonic() < self.outage_until:
            return "503"
        with self._lock:
            self.requests += 1
            self._asked[method, key] += 1
            dice = random.Random(f"{self.seed} {method} {key} {self._asked[method, key]}")
            fault = None
            if self._owed and conditional and "/done/" in key and self._asked[method, key] == 1:
                fault = self._owed.pop(0)
            elif dice.random() < self.rate:
                fault = dice.choice(FAULTS[method])
            elif conditional and dice.random() < 4 * self.rate:
                fault = "409"
            self.failures[fault or "none"] += 1
            return fault

    def write(self, key: str, body: bytes, conditional: bool) -> bool:
        """Write an object; says whether it was written."""
        with self._lock:
            if conditional and key in self.objects:
                return False
            if ONCE.search(key) and self.objects.get(key, body) != body:
                self.replaced.append(key)
            self.objects[key] = body
            self.writes[key] += 1
        self.on_write(key)
        return True

    def delete(self, keys: list[str]) -> None:
        with self._lock:
            for key in keys:
                self.objects.pop(key, None)

    def keys(self, prefix: str = "") -> list[str]:
        with self._lock:
            return sorted(key for key in self.objects if key.startswith(prefix))


class _Handler(BaseHTTPRequestHandler):
    bucket: Bucket
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 120

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith("/machine/"):
            self._answer(200, b"token")
            return
        key, conditional = self._key(), self.headers.get("If-None-Match") == "*"
        fault = self.bucket.fault("PUT", key, conditional) or ""
        if self._failed_before(fault):
            return
        if not self.bucket.write(key, body, conditional):
            self._error(412, "PreconditionFailed")
        elif fault == "500-after":
            self._error(500, "InternalError")
        elif fault.endswith("drop-after"):
            self._drop(fault)
        else:
            self._hang(fault)
            self._answer(200, b"", ETag='"1"')

    def do_GET(self) -> None:
        if self.path.startswith("/machine/"):
            self._metadata()
            return
        key = self._key()
        fault = self.bucket.fault(self.command, key or self.path, False) or ""
        if self._failed_before(fault):
            return
        self._hang(fault)
        if not key:
            self._answer(200, self._listing())
        elif (data := self.bucket.objects.get(key)) is None:
            self._error(404, "NoSuchKey")
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
        if fault in ("500", "503", "409"):
            self._error(
                int(fault), {"500": "InternalError", "503": "SlowDown"}.get(fault, "ConditionalRequestConflict")
            )
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
        return unquote(urlsplit(self.path).path).removeprefix(f"/{NAME}").removeprefix("/")

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
        found = [key for key in self.bucket.keys(prefix) if key > after]
        folders: list[str] = []
        if query.get("delimiter"):
            folders = sorted(
                {prefix + key[len(prefix) :].split("/")[0] + "/" for key in found if "/" in key[len(prefix) :]}
            )
            found = [key for key in found if "/" not in key[len(prefix) :]]
        sizes = {key: len(self.bucket.objects.get(key, b"")) for key in found}
        contents = "".join(
            f"<Contents><Key>{key}</Key><Size>{size}</Size><ETag>1</ETag>"
            "<LastModified>2026-11-21T08:00:00Z</LastModified></Contents>"
            for key, size in sizes.items()
        )
        common = "".join(f"<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>" for folder in folders)
        return (
            f"<ListBucketResult><Name>{NAME}</Name><Prefix>{prefix}</Prefix><KeyCount>{len(found)}</KeyCount>"
            f"<IsTruncated>false</IsTruncated>{contents}{common}</ListBucketResult>"
        ).encode()

    def _metadata(self) -> None:
        machine, _, path = self.path.removeprefix("/machine/").partition("/")
        if path == "latest/meta-data/spot/instance-action" and machine in self.bucket.doomed:
            ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 120))
            self._answer(200, f'{{"action": "terminate", "time": "{ends}"}}'.encode())
        else:
            self._answer(404, b"")

    def _error(self, code: int, name: str) -> None:
        self._answer(code, f"<Error><Code>{name}</Code><Message>{name}</Message></Error>".encode())

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
