"""The service of a machine on AWS, against a fake ECR. tests/e2e/test_any_image.py runs it on an emulated machine."""

from __future__ import annotations

import hashlib
import io
import json
import socket
import tarfile
import threading
import urllib.error
from email.message import Message
from pathlib import Path

import pytest

from components.aws import host

DIGEST = 64 * "a"
IMAGE = f"123456789012.dkr.ecr.us-west-2.amazonaws.com/demo/worker@sha256:{DIGEST}"


@pytest.fixture
def ecr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What ECR has, `layer`, under the digest of what it should have; the machine's folder is `tmp_path`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        entry = tarfile.TarInfo("tidemill/tidemill-worker")
        tar.addfile(entry)
    content = {"layer": packed.getvalue()}
    digest = f"sha256:{hashlib.sha256(content['layer']).hexdigest()}"
    answers = {
        "BatchGetImage": {"images": [{"imageManifest": json.dumps({"layers": [{"digest": digest}]})}]},
        "GetDownloadUrlForLayer": {"downloadUrl": "http://layer"},
    }
    monkeypatch.setattr(host, "FOLDER", str(tmp_path))
    monkeypatch.setattr(host, "ecr", lambda image, operation, **_: answers[operation])
    monkeypatch.setattr(host.urllib.request, "urlopen", lambda *_, **__: io.BytesIO(content["layer"]))
    return content


def asked(folder: Path, line: str) -> str:
    """The service's answer to a line."""
    address = str(folder / "fetch.sock")
    with host.Server(address, host.Asked) as server, socket.socket(socket.AF_UNIX) as caller:
        threading.Thread(target=server.handle_request, daemon=True).start()
        caller.settimeout(60)
        caller.connect(address)
        caller.sendall(line.encode() + b"\n")
        return caller.recv(600).decode()


def test_a_tree_is_brought_whole_and_once(ecr: dict[str, bytes], tmp_path: Path):
    assert asked(tmp_path, IMAGE) == "ok"
    tree = tmp_path / DIGEST[:16]
    assert [path.name for path in tree.iterdir()] == ["tidemill-worker"]
    ecr["layer"] = b""
    assert host.bring(IMAGE) == str(tree)


def test_a_layer_that_arrives_as_another_one_leaves_nothing(ecr: dict[str, bytes], tmp_path: Path):
    ecr["layer"] = ecr["layer"][:-5]
    said = asked(tmp_path, IMAGE)
    assert said.startswith("ValueError: the layer arrived as sha256:")
    assert [path.name for path in tmp_path.iterdir()] == ["fetch.sock"]


@pytest.mark.parametrize("name", ["notice", "rebalance"])
def test_what_metadata_says_of_an_interruption_is_written_once_it_says_so(tmp_path: Path, monkeypatch, name: str):
    said: dict[str, str] = {}

    def ask(url: str, method: str = "GET", *_: object, **__: object) -> bytes:
        path = url.removeprefix(host.METADATA)
        if method == "PUT":
            return b"token"
        if path not in said:
            raise urllib.error.HTTPError(url, 404, "Not Found", Message(), None)
        return said[path].encode()

    monkeypatch.setattr(host, "FOLDER", str(tmp_path))
    monkeypatch.setattr(host, "ask", ask)
    host.note(name)
    assert list(tmp_path.iterdir()) == []
    said[host.SAID[name]] = '{"time": "soon"}'
    host.note(name)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: '{"time": "soon"}'}


@pytest.mark.parametrize("line", ["", "x", "quay.io/a/b@sha256:" + DIGEST, IMAGE[:-1], IMAGE + "/../../x"])
def test_only_an_image_of_ecr_by_digest_is_brought(ecr: dict[str, bytes], tmp_path: Path, line: str):
    assert "is not an image of ECR by digest" in asked(tmp_path, line)
