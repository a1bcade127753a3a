"""A subscription over TLS: another thread ends a pull that waits. The certificate belongs to the test."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.loopback_s3 import serving
from tests.tls_server import TlsServer
from tidemill.services.pubsub.lease.subscription import PubSubError, Subscription

NAME = "projects/p/subscriptions/s"
SECONDS = 60


class Server:
    """Answers the first pull at once, and holds the others."""

    def __init__(self, folder: Path) -> None:
        self.asked, self.end = threading.Semaphore(0), threading.Event()
        self.answers = [{"receivedMessages": [{"ackId": "A"}]}]
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                server.asked.release()
                if not server.answers:
                    server.end.wait(SECONDS)
                    return
                body = json.dumps(server.answers.pop()).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 as the base calls it
                return

        self.http = TlsServer(folder, Handler)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    with serving(made.http):
        yield made
        made.end.set()


def test_a_pull_that_waits_is_ended(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(server.http.certificate))
    subscription = Subscription(NAME, None, f"{server.http.url}/")
    assert subscription.pull() == {"ackId": "A"}
    assert server.asked.acquire(timeout=SECONDS)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(subscription.pull)
        assert server.asked.acquire(timeout=SECONDS)
        subscription.abort()
        with pytest.raises(PubSubError, match=NAME):
            waiting.result(SECONDS)
    # And no more begin.
    with pytest.raises(PubSubError, match="no pull is wanted"):
        subscription.pull()
    assert not server.asked.acquire(blocking=False)


def test_a_server_with_an_unknown_certificate_gets_no_request(server: Server):
    with pytest.raises(PubSubError, match="certificate"):
        Subscription(NAME, None, f"{server.http.url}/").pull()
    assert not server.asked.acquire(blocking=False)
