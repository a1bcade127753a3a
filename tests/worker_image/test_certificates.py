"""A worker in a root without certificates speaks TLS, with the ones that it brings or that it is given. The server is
on loopback, with a certificate of a test; what S3's certificate is signed with is not looked at here."""

from __future__ import annotations

import ipaddress
import ssl
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

START = ["/tidemill/tidemill-worker", "start"]


class Server:
    """An HTTPS server that denies everything, and the certificate to trust it by."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        self.certificate = folder / "certificate.pem"
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "store of a test")])
        loopback = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        now = datetime.now(UTC)
        valid = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        made = valid.add_extension(loopback, False).sign(key, hashes.SHA256())
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        private = folder / "key.pem"
        form = serialization.PrivateFormat.PKCS8
        private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(403)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 as the base calls it
                return

        self.refused: list[str] = []
        refused = self.refused

        class Http(ThreadingHTTPServer):
            def handle_error(self, request: object, client_address: object) -> None:
                refused.append(str(sys.exc_info()[1]))

        self.http = Http(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, private)
        self.http.socket = context.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "TIDEMILL_STORE": "s3://bucket",
            "TIDEMILL_REGION": "us-west-2",
            "AWS_ENDPOINT_URL": f"https://127.0.0.1:{self.http.server_port}",
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "key",
        }


@pytest.fixture
def server(team) -> Iterator[Server]:
    made = Server(team.root)
    thread = threading.Thread(target=made.http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield made
    made.http.shutdown()
    thread.join(timeout=10)
    made.http.server_close()


@pytest.mark.namespaces
def test_the_containers_own_certificates_are_used(container, team, server):
    job = team.job(["x"], ["/program"])
    environment = job.environment() | server.environment | {"SSL_CERT_FILE": str(server.certificate)}
    done = container().run(START, environment)
    assert server.asked, done.stdout + done.stderr
    assert "bucket" in server.asked[0]


@pytest.mark.namespaces
def test_a_server_that_nobody_vouches_for_is_not_trusted(container, team, server):
    job = team.job(["x"], ["/program"])
    done = container().run(START, job.environment() | server.environment)
    assert done.returncode != 0
    assert server.asked == []
    assert server.refused
    assert all("UNKNOWN_CA" in each for each in server.refused)
