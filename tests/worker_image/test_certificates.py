"""A worker in a root without certificates speaks TLS, with the ones that it brings or that it is given. The server is
on loopback, with a certificate of a test; what S3's certificate is signed with is not looked at here."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.loopback_s3 import serving
from tests.tls_server import TlsServer

START = ["/tidemill/tidemill-worker", "start"]


class Server:
    """An HTTPS server that denies everything."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(403)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 as the base calls it
                return

        self.http = TlsServer(folder, Handler)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "TIDEMILL_STORE": "s3://bucket",
            "TIDEMILL_REGION": "us-west-2",
            "AWS_ENDPOINT_URL": self.http.url,
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "key",
        }


@pytest.fixture
def server(team) -> Iterator[Server]:
    made = Server(team.root)
    with serving(made.http):
        yield made


@pytest.mark.namespaces
def test_the_containers_own_certificates_are_used(container, team, server):
    job = team.job(["x"], ["/program"])
    environment = job.environment() | server.environment | {"SSL_CERT_FILE": str(server.http.certificate)}
    done = container().run(START, environment)
    assert server.asked, done.stdout + done.stderr
    assert "bucket" in server.asked[0]


@pytest.mark.namespaces
def test_a_server_that_nobody_vouches_for_is_not_trusted(container, team, server):
    job = team.job(["x"], ["/program"])
    done = container().run(START, job.environment() | server.environment)
    assert done.returncode != 0
    assert server.asked == []
    assert server.http.refused
    assert all("UNKNOWN_CA" in each for each in server.http.refused)
