"""Stores to test against the contract: servers of other projects, built from the Go module proxy, and ours.

S3 and Cloud Storage themselves are not among them; docs/cloud-facts.md says which answers are theirs.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3

from localcloud.engine.go import build
from tests.localcloud.gcp.running import OWNER, RunningGcp
from tests.store.xml_api import XmlApi

HERE = Path(__file__).parent
START_SECONDS = 60.0
BUCKET = "contract"
REGION = "us-west-2"


@dataclass(frozen=True)
class Server:
    """A running server with one empty bucket.

    Attributes:
        scheme: ``s3`` or ``gs``.
        port: On 127.0.0.1.
        path: What its API's paths begin with.
        login: Key and secret, or a bearer token.
    """

    scheme: str
    port: int
    path: str = ""
    login: tuple[str, ...] = ("key", "secret")

    @property
    def uri(self) -> str:
        return f"{self.scheme}://{BUCKET}"


def environment(server: Server, port: int) -> Mapping[str, str]:
    """The variables with which a client finds a server at a port (its own, or that of a front)."""
    url = f"http://127.0.0.1:{port}{server.path}"
    if server.scheme == "gs":
        return {"GOOGLE_BASE_URL": url}
    key, secret = server.login
    return {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": REGION}


def programs() -> Path:
    """The folder of versitygw and fake-gcs-server."""
    packages = ["github.com/versity/versitygw/cmd/versitygw", "github.com/fsouza/fake-gcs-server"]
    return build("store servers", HERE, "two minutes", packages)


@contextmanager
def _process(command: list[str], log: Path, env: Mapping[str, str], port: int) -> Iterator[None]:
    """A server as a process, from the first connection that it takes until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        end = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 5):
                break
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        yield
    finally:
        process.kill()
        process.wait(START_SECONDS)


def _free_port() -> int:
    """A port below those that the system gives to whoever asks for any: no one else takes it before the server does."""
    while True:
        port = random.randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@contextmanager
def versitygw(folder: Path) -> Iterator[Server]:
    """An S3 over a folder. It keeps connections, as S3 does."""
    (folder / "data" / BUCKET).mkdir(parents=True)
    port = _free_port()
    options = ["--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet", "--keep-alive"]
    command = [str(programs() / "versitygw"), *options, "posix", str(folder / "data")]
    login = {"ROOT_ACCESS_KEY": "key", "ROOT_SECRET_KEY": "secret"}
    with _process(command, folder / "log", login, port):
        yield Server("s3", port)


@contextmanager
def fake_gcs(folder: Path) -> Iterator[Server]:
    """A Cloud Storage in memory. It knows only the JSON API, while our client speaks the XML API."""
    port = _free_port()
    command = [str(programs() / "fake-gcs-server"), "-backend", "memory", "-scheme", "http", "-log-level", "warn"]
    place = ["-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"]
    with _process([*command, *place], folder / "log", {}, port):
        _post(port, "/storage/v1/b?project=p", {"name": BUCKET})
        with XmlApi(port).running() as translator:
            yield Server("gs", translator.port, login=("token",))


@contextmanager
def moto(folder: Path) -> Iterator[Server]:
    """An S3 in memory, in Python."""
    port = _free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _process(command, folder / "log", {}, port):
        _make_bucket(port, "key", "secret")
        yield Server("s3", port)


@contextmanager
def localcloud_aws(folder: Path) -> Iterator[Server]:
    """Our AWS: moto behind our gateway."""
    port = _free_port()
    command = [sys.executable, "-m", "localcloud.aws.serve", "--state", str(folder), "--port", str(port)]
    with _process(command, folder / "log", {}, port):
        key = json.loads((folder / "credentials.json").read_text())
        login = key["access_key_id"], key["secret_access_key"]
        _make_bucket(port, *login)
        yield Server("s3", port, login=login)


@contextmanager
def localcloud_gcp(folder: Path) -> Iterator[Server]:
    """Our Cloud Storage."""
    with RunningGcp(folder) as gcp:
        gcp.call("storage", "POST", "storage/v1/b?project=localcloud-project", {"name": BUCKET})
        token = gcp.site.tokens.issue(OWNER)["access_token"]
        yield Server("gs", gcp.port, "/storage", (token,))


def _make_bucket(port: int, key: str, secret: str) -> None:
    url = f"http://127.0.0.1:{port}"
    boto3.client(
        "s3", region_name=REGION, endpoint_url=url, aws_access_key_id=key, aws_secret_access_key=secret
    ).create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})


def _post(port: int, path: str, body: object) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    assert connection.getresponse().status == 200
    connection.close()


SERVERS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Server]]] = {
    "versitygw": versitygw,
    "fake-gcs-server": fake_gcs,
    "moto": moto,
    "localcloud-aws": localcloud_aws,
    "localcloud-gcp": localcloud_gcp,
}


if __name__ == "__main__":
    programs()
