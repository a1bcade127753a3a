"""A subscription over TLS: another thread ends a pull that waits. The certificate belongs to the test."""

from __future__ import annotations

import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tidemill.worker.leases.subscription import PubSubError, Subscription

NAME = "projects/p/subscriptions/s"
SECONDS = 60


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for loopback, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pubsub of a test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    (folder / "certificate.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return folder / "certificate.pem", folder / "key.pem"


class Server:
    """Answers the first pull at once, and holds the others."""

    def __init__(self, folder: Path) -> None:
        self.certificate, key = certificate(folder)
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

        class Http(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                return

        self.http = Http(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        self.http.socket = context.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def endpoint(self) -> str:
        return f"https://127.0.0.1:{self.http.server_port}/"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    thread = threading.Thread(target=made.http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield made
    made.end.set()
    made.http.shutdown()
    thread.join(timeout=10)
    made.http.server_close()


def test_a_pull_that_waits_is_ended(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
    subscription = Subscription(NAME, None, server.endpoint)
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
        Subscription(NAME, None, server.endpoint).pull()
    assert not server.asked.acquire(blocking=False)
