"""A worker and its programs behind a forward proxy whose company signs its own certificates, with the variables that a
job definition gives them. The proxy is a real process of sockets on loopback; names are known to it alone, so that
whatever reaches the store went through it. What this cannot show: machines of the clouds, whose Docker and agents read
the same variables."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

import pulumi
import pytest

from components.outbound import Outbound
from tests.components.recording import Recorder, run_with
from tests.loopback_s3 import LoopbackS3
from tests.tls_server import Authority
from tests.worker.containers import Ran, Team, ran
from tests.worker.forked import start

STORE = "store.company.test"
PROXY = "proxy.company.test"
CLIENTS = {
    "urllib": f"import urllib.request; urllib.request.urlopen('https://{STORE}/bucket/hello').read()",
    "requests": f"import requests; requests.get('https://{STORE}/bucket/hello').raise_for_status()",
    "boto3": "import boto3; boto3.client('s3').get_object(Bucket='bucket', Key='hello')",
}


class Proxy(ThreadingTCPServer):
    """Opens tunnels to one server, whatever name they are for.

    Attributes:
        asked: Hosts and ports of `CONNECT`, in their order.
    """

    allow_reuse_address = daemon_threads = True

    def __init__(self, port: int) -> None:
        self.asked: list[str] = []
        self.target = ("127.0.0.1", port)
        super().__init__(("127.0.0.1", 0), _Tunnel)

    @property
    def port(self) -> int:
        return self.server_address[1]


class _Tunnel(BaseRequestHandler):
    server: Proxy  # type: ignore[assignment]

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            if not (read := self.request.recv(1)):
                return
            head += read
        method, asked, _ = head.decode().splitlines()[0].split()
        if method != "CONNECT":
            self.request.sendall(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
            return
        self.server.asked.append(asked)
        with socket.create_connection(self.server.target) as other, contextlib.suppress(OSError):
            self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=_copy, args=(other, self.request), daemon=True)
            back.start()
            _copy(self.request, other)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


class Company:
    """A bucket behind a proxy, with the company's authority."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority()
        self.bundle = folder / "certificates.pem"
        self.bundle.write_text(self.authority.pem)
        self.bucket = LoopbackS3("bucket")
        context = self.authority.context(folder, STORE)
        server = self.bucket._server
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.handle_error = lambda *_: self.refused.append(str(sys.exc_info()[1]))  # type: ignore[method-assign]
        self.refused: list[str] = []
        self.proxy = Proxy(server.server_port)

    @contextlib.contextmanager
    def running(self) -> Iterator[Company]:
        thread = threading.Thread(target=self.proxy.serve_forever, kwargs={"poll_interval": 0.02})
        with self.bucket.running():
            thread.start()
            yield self
            self.proxy.shutdown()
            thread.join()
            self.proxy.server_close()

    def variables(self) -> dict[str, str]:
        """What a job definition of this company gives to a container. No stack file may name loopback."""
        given: dict[str, str] = {}

        def program() -> None:
            out = Outbound.of(f"http://{PROXY}:{self.proxy.port}", ["internal.test"], self.authority.pem)
            for key, value in out.variables(str(self.bundle)).items():
                pulumi.Output.from_input(value).apply(lambda known, key=key: given.update({key: known}))

        run_with(Recorder(), program)
        return {key: value.replace(PROXY, "127.0.0.1") for key, value in given.items()}


@pytest.fixture
def company(tmp_path: Path) -> Iterator[Company]:
    with Company(tmp_path).running() as company:
        yield company


def worked(company: Company, team: Team, variables: dict[str, str]) -> Ran:
    """Run a worker, for an item of each client, on the company's bucket."""
    program = team.root / "client.py"
    program.write_text(f"import sys\nexec({CLIENTS!r}[sys.argv[1]])\n")
    job = team.job([*CLIENTS], [sys.executable, str(program), "{uri}"])
    root = Path(team.store.uri.removeprefix("file://"))
    for path in root.rglob("*"):
        if path.is_file():
            company.bucket.objects[path.relative_to(root).as_posix()] = path.read_bytes()
    company.bucket.objects["hello"] = b"hello"
    login = {key: value for key, value in company.bucket.environment.items() if key.startswith("AWS_")}
    login |= {"AWS_ENDPOINT_URL": f"https://{STORE}", "AWS_ALLOW_HTTP": "false"}
    worker = start("tidemill.worker", {**job.environment(), "TIDEMILL_STORE": "s3://bucket", **login, **variables})
    team.workers.append(worker)
    return ran(worker)


def ended(company: Company) -> dict[str, str]:
    """The status of each item."""
    (record,) = [body for key, body in company.bucket.objects.items() if "/done/" in key]
    lines = [json.loads(line) for line in record.decode().splitlines()]
    return {line["uri"]: line["status"] for line in lines if "uri" in line}


def test_a_worker_and_its_programs_go_through_the_proxy(company: Company, team: Team):
    done = worked(company, team, company.variables())
    assert done.code == 0, done.lines
    assert ended(company) == dict.fromkeys(CLIENTS, "succeeded")
    assert {*company.proxy.asked} == {f"{STORE}:443"}
    assert len(company.proxy.asked) >= 1 + len(CLIENTS)
    assert company.refused == []


def test_each_client_needs_its_own_variable(company: Company, team: Team):
    variables = {key: value for key, value in company.variables().items() if not key.endswith("_BUNDLE")}
    assert worked(company, team, variables).code == 0
    assert ended(company) == {"urllib": "succeeded", "requests": "failed", "boto3": "failed"}


def test_without_the_proxy_nothing_reaches_the_store(company: Company, team: Team):
    variables = {key: value for key, value in company.variables().items() if not key.lower().endswith("_proxy")}
    assert worked(company, team, variables | {"TIDEMILL_STORE_SECONDS": "1"}).code != 0
    assert company.proxy.asked == []


def test_without_the_authority_the_store_is_not_trusted(company: Company, team: Team):
    variables = {key: value for key, value in company.variables().items() if key.lower().endswith("_proxy")}
    assert worked(company, team, variables).code != 0
    assert company.proxy.asked
    assert company.refused
    assert not [key for key in company.bucket.objects if "/done/" in key]
