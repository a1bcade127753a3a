"""The service of a machine on AWS, against a fake S3 and ECR. tests/e2e/test_any_image.py runs it on localcloud.

What this cannot prove: that systemd gives the service no more than its unit says.
"""

from __future__ import annotations

import configparser
import hashlib
import io
import json
import os
import socket
import tarfile
import threading
import urllib.error
import urllib.parse
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import pytest

from components.services.batch import host
from components.services.batch.user_data import script

REPOSITORY = "123456789012.dkr.ecr.us-west-2.amazonaws.com/demo/worker"
POINTER = "s3://store/machines/cpu/worker"
Entry = tuple[str, bytes, str]
"""Name, type and target of an entry of a layer."""
WORKER: list[Entry] = [
    ("tidemill", tarfile.DIRTYPE, ""),
    ("tidemill/lib", tarfile.DIRTYPE, ""),
    ("tidemill/lib/loader", tarfile.SYMTYPE, "../tidemill-worker"),
    ("tidemill/tidemill-worker", tarfile.REGTYPE, ""),
]


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def packed(entries: list[Entry], mode: int = 0o755) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, kind, target in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = kind, target, mode
            entry.size = 3 if kind == tarfile.REGTYPE else 0
            tar.addfile(entry, io.BytesIO(b"run") if entry.size else None)
    return content.getvalue()


class Aws:
    """Instance metadata, an object that names a worker, and ECR: all that a machine's role reaches."""

    def __init__(self) -> None:
        self.images: dict[str, str] = {}
        self.layers: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.image = self.push(packed(WORKER))
        self.pointer = self.image

    def push(self, *layers: bytes) -> str:
        """An image of these layers, by digest."""
        manifest = json.dumps({"layers": [{"digest": sha(each)} for each in layers]})
        self.images[sha(manifest.encode())] = manifest
        self.layers |= {sha(each): each for each in layers}
        return f"{REPOSITORY}@{sha(manifest.encode())}"

    def ask(self, url: str, method: str = "GET", headers=None, body: bytes = b"", proxies: bool = True) -> bytes:
        self.asked.append(urllib.parse.urlsplit(url).netloc)
        if url.startswith(host.METADATA):
            path = url.removeprefix(host.METADATA)
            role = {"AccessKeyId": "ASIA", "SecretAccessKey": "s3cret", "Token": "token"}
            known = {
                "api/token": "t",
                "meta-data/placement/region": "us-west-2",
                "meta-data/services/domain": "amazonaws.com",
                "meta-data/iam/security-credentials/": "machine",
                "meta-data/iam/security-credentials/machine": json.dumps(role),
            }
            return known[path].encode()
        if url == "https://s3.us-west-2.amazonaws.com/store/machines/cpu/worker":
            return self.pointer.encode() + b"\n"
        assert url == "https://api.ecr.us-west-2.amazonaws.com/"
        wanted = json.loads(body)
        assert (wanted["registryId"], wanted["repositoryName"]) == ("123456789012", "demo/worker")
        assert headers is not None
        if headers["X-Amz-Target"].endswith("GetDownloadUrlForLayer"):
            return json.dumps({"downloadUrl": wanted["layerDigest"]}).encode()
        found = self.images.get(wanted["imageIds"][0]["imageDigest"])
        failures = [] if found else [{"failureCode": "ImageNotFound"}]
        return json.dumps({"images": [{"imageManifest": found}] if found else [], "failures": failures}).encode()


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Aws:
    """The machine's folder is `tmp_path`."""
    aws = Aws()
    monkeypatch.setattr(host, "FOLDER", str(tmp_path))
    monkeypatch.setattr(host, "ask", aws.ask)
    monkeypatch.setattr(host.urllib.request, "urlopen", lambda url, **_: io.BytesIO(aws.layers[url]))
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    return aws


@pytest.fixture
def service(aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[host.Server]:
    monkeypatch.setattr(host.Asked, "pointer", POINTER)
    with host.Server(str(tmp_path / "fetch.sock"), host.Asked) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield server
        server.shutdown()
        serving.join()


def connected(service: host.Server) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX)
    caller.settimeout(60)
    caller.connect(service.server_address)
    return caller


def asked(service: host.Server, line: bytes) -> str:
    """The service's answer to a line, once it has forgotten the connection."""
    with connected(service) as caller, caller.makefile("rb") as answer:
        caller.sendall(line)
        return answer.read().decode()


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "fetch.sock")


def test_a_tree_is_brought_whole_and_once(service: host.Server, aws: Aws, tmp_path: Path):
    assert asked(service, f"{aws.image}\n".encode()) == "ok"
    name = aws.image.rpartition(":")[2][:16]
    assert left(tmp_path) == [name]
    found = {str(path.relative_to(tmp_path / name)) for path in (tmp_path / name).rglob("*")}
    assert found == {"lib", "lib/loader", "tidemill-worker"}
    assert (tmp_path / name / "tidemill-worker").stat().st_mode & 0o7777 == 0o755
    aws.layers.clear()
    assert asked(service, f"{aws.image}\n".encode()) == "ok"


def test_another_release_of_the_repository_may_be_asked_for(service: host.Server, aws: Aws, tmp_path: Path):
    """A job that was submitted before a release waits for its own worker."""
    older = aws.push(packed([*WORKER, ("tidemill/older", tarfile.REGTYPE, "")]))
    assert asked(service, f"{older}\n".encode()) == "ok"
    assert left(tmp_path) == [older.rpartition(":")[2][:16]]


DIGEST = 64 * "b"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "a line has at most 500 characters and arrives whole"),
        ("\n", "is not an image of ECR by digest"),
        ("x\n", "is not an image of ECR by digest"),
        (f"{REPOSITORY}@sha256:{DIGEST}", "arrives whole"),
        (f"{REPOSITORY}@sha256:{DIGEST[:-1]}\n", "is not an image of ECR by digest"),
        (f"{REPOSITORY}@sha256:{DIGEST}/../../x\n", "is not an image of ECR by digest"),
        (f"{REPOSITORY}@sha256:../../../../etc/{DIGEST[:52]}\n", "is not an image of ECR by digest"),
        (f"{REPOSITORY}@sha256:{DIGEST}\n{REPOSITORY}@sha256:{DIGEST}\n", "is not an image of ECR by digest"),
        ("quay.io/a/b@sha256:" + DIGEST + "\n", "is not an image of ECR by digest"),
        (REPOSITORY.replace(".amazonaws.com", ".evil.example") + f"@sha256:{DIGEST}\n", "is not in the repository"),
        (REPOSITORY.replace("us-west-2", "eu-west-1") + f"@sha256:{DIGEST}\n", "is not in the repository"),
        (REPOSITORY.replace("123456789012", "999999999999") + f"@sha256:{DIGEST}\n", "is not in the repository"),
        (REPOSITORY + f"-of-mine@sha256:{DIGEST}\n", "is not in the repository"),
        (REPOSITORY.replace("demo/worker", "demo/../worker") + f"@sha256:{DIGEST}\n", "is not in the repository"),
        (REPOSITORY.replace("us-west-2", "us\u2010west-2") + f"@sha256:{DIGEST}\n", "UnicodeDecodeError"),
        (f"{REPOSITORY}@sha256:{DIGEST}\n", "ECR has no such image"),
        ("a" * 600 + "\n", "a line has at most 500 characters"),
    ],
)
def test_a_container_chooses_a_digest_and_nothing_else(
    service: host.Server, aws: Aws, tmp_path: Path, line: str, reason: str
):
    with connected(service) as caller:
        caller.sendall(line.encode())
        caller.shutdown(socket.SHUT_WR)
        assert reason in caller.recv(600).decode()
    assert left(tmp_path) == []
    assert set(aws.asked) <= {"169.254.169.254", "s3.us-west-2.amazonaws.com", "api.ecr.us-west-2.amazonaws.com"}


@pytest.mark.parametrize(
    "named",
    [
        REPOSITORY.replace(".amazonaws.com", ".evil.example") + f"@sha256:{DIGEST}",
        REPOSITORY.replace(".amazonaws.com", ".amazonaws.com.evil.example") + f"@sha256:{DIGEST}",
        REPOSITORY + ":latest",
        "",
    ],
)
def test_what_the_object_names_lies_in_a_registry_of_aws(service: host.Server, aws: Aws, tmp_path: Path, named: str):
    aws.pointer = named
    assert "which is not an image of ECR by digest" in asked(service, f"{aws.image}\n".encode())
    assert left(tmp_path) == []


def test_a_machine_whose_images_contain_the_worker_brings_none(
    service: host.Server, aws: Aws, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(host.Asked, "pointer", "")
    assert "no object names a worker" in asked(service, f"{aws.image}\n".encode())
    assert aws.asked == []


def test_a_layer_that_arrives_as_another_one_leaves_nothing(service: host.Server, aws: Aws, tmp_path: Path):
    (digest,) = aws.layers
    aws.layers[digest] = aws.layers[digest][:-5]
    assert asked(service, f"{aws.image}\n".encode()).startswith("ValueError: the layer arrived as sha256:")
    assert left(tmp_path) == []


def test_a_manifest_that_arrives_as_another_one_leaves_nothing(service: host.Server, aws: Aws, tmp_path: Path):
    """Whoever answers for ECR cannot put another tree below the digest of a worker."""
    other = aws.push(packed(WORKER, 0o644))
    aws.images[aws.image.rpartition("@")[2]] = aws.images[other.rpartition("@")[2]]
    assert asked(service, f"{aws.image}\n".encode()).startswith("ValueError: the manifest arrived as sha256:")
    assert left(tmp_path) == []


FILE, FOLDER, LINK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE
HOSTILE: dict[str, list[Entry]] = {
    "a file outside": [("../../etc/cron.d/owned", FILE, "")],
    "a file by its full path": [("/etc/cron.d/owned", FILE, "")],
    "a file beside": [("machine", FILE, "")],
    "a folder that begins alike": [("tidemill-x", FOLDER, ""), ("tidemill-x/a", FILE, "")],
    "a way up": [("tidemill/../../owned", FILE, "")],
    "a link to the machine": [("tidemill/l", LINK, "/etc")],
    "a link up": [("tidemill/l", LINK, "../..")],
    "a link through a link": [
        ("tidemill/a", FOLDER, ""),
        ("tidemill/a/b", LINK, "../lib"),
        ("tidemill/c", LINK, "a/b/../../.."),
    ],
    "a link through a link whose name begins with dots": [
        ("tidemill/a", FOLDER, ""),
        ("tidemill/a/b", FOLDER, ""),
        ("tidemill/a/b/...", LINK, "../.."),
        ("tidemill/a/b/out", LINK, ".../../../owned"),
    ],
    "a file through a link": [("tidemill/l", LINK, "lib"), ("tidemill/l/x", FILE, "")],
    "a link in place of a folder": [("tidemill/lib", LINK, ".")],
    "a file twice": [("tidemill/tidemill-worker", FILE, "")],
    "a hard link": [("tidemill/h", tarfile.LNKTYPE, "tidemill/tidemill-worker")],
    "a device": [("tidemill/sda", tarfile.BLKTYPE, "")],
    "a pipe": [("tidemill/pipe", tarfile.FIFOTYPE, "")],
    "a file without its folder": [("tidemill/x/y", FILE, "")],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_layer_holds_files_folders_and_inner_links(service: host.Server, aws: Aws, tmp_path: Path, case: str):
    image = aws.push(packed([*WORKER, *HOSTILE[case]]))
    assert asked(service, f"{image}\n".encode()).startswith("ValueError: the layer holds ")
    assert left(tmp_path) == []
    assert not (tmp_path.parent / "owned").exists()


def test_rights_of_a_layers_files_are_not_taken_over(service: host.Server, aws: Aws, tmp_path: Path):
    image = aws.push(packed(WORKER, 0o6777))
    assert asked(service, f"{image}\n".encode()) == "ok"
    tree = tmp_path / image.rpartition(":")[2][:16]
    modes = {path.name: path.stat().st_mode & 0o7777 for path in tree.iterdir() if not path.is_symlink()}
    assert modes == {"lib": 0o755, "tidemill-worker": 0o755}


@pytest.mark.parametrize("limit", ["LARGEST", "MOST_FILES"])
def test_a_tree_has_a_limit(service: host.Server, aws: Aws, tmp_path: Path, monkeypatch, limit: str):
    monkeypatch.setattr(host, limit, 2)
    assert "more than" in asked(service, f"{aws.image}\n".encode())
    assert left(tmp_path) == []


def test_an_image_has_one_layer(service: host.Server, aws: Aws, tmp_path: Path):
    image = aws.push(packed(WORKER), packed([("tidemill", FOLDER, "")]))
    assert asked(service, f"{image}\n".encode()).startswith("ValueError")
    assert left(tmp_path) == []


def test_one_container_cannot_keep_the_others_out(service: host.Server, aws: Aws, monkeypatch: pytest.MonkeyPatch):
    """Its lines never end; another container is answered all the same."""
    whose = iter(["greedy"] * 4 + ["other"])
    monkeypatch.setattr(host, "container_of", lambda _: next(whose))
    held = [connected(service) for _ in range(4)]
    assert [each.recv(600) for each in held[host.ASKS :]] == [b""] * (4 - host.ASKS)
    assert asked(service, f"{aws.image}\n".encode()) == "ok"
    for each in held:
        each.close()


def test_containers_are_told_apart_by_their_control_groups(service: host.Server):
    caller, accepted = socket.socketpair(socket.AF_UNIX)
    with caller, accepted:
        assert host.container_of(accepted) == Path("/proc/self/cgroup").read_text()
    for _ in range(3 * host.ASKS):
        assert "not an image" in asked(service, b"x\n"), "a connection that ended does not count"


def test_the_launcher_is_the_one_of_the_worker_that_the_object_names(aws: Aws, tmp_path: Path):
    host.fetch(POINTER)
    assert left(tmp_path) == sorted([aws.image.rpartition(":")[2][:16], "tidemill-worker"])
    assert os.access(tmp_path / "tidemill-worker", os.X_OK)
    aws.asked.clear()
    host.fetch(POINTER)
    assert aws.asked == [], "the service starts again without the cloud"


def test_the_service_has_no_rights():
    """systemd owns the folder to the service's user; `systemctl start` waits for the launcher."""
    text = script({}, POINTER)
    unit = text.partition("tidemill-host.service <<'EOF'\n")[2].partition("EOF\n")[0]
    parsed = configparser.ConfigParser()
    parsed.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    parsed.read_string(unit)
    settings = dict(parsed["Service"])
    assert settings["User"] == "tidemill-host"
    user = f"id {settings['User']} || useradd --system --no-create-home"
    assert f"\n{user} --shell /sbin/nologin {settings['User']}\n" in text
    assert "/var/lib/" + settings["StateDirectory"] == host.FOLDER
    rights = ("NoNewPrivileges", "CapabilityBoundingSet", "ProtectSystem", "ProtectHome", "PrivateDevices")
    assert [settings[each] for each in rights] == ["yes", "", "strict", "yes", "yes"]
    assert settings["ExecStartPre"] == f"/usr/bin/python3 /opt/tidemill/host.py fetch {POINTER}"
    assert settings["ExecStart"] == f"/usr/bin/python3 /opt/tidemill/host.py serve {POINTER}"
    assert int(settings["TimeoutStartSec"]) > host.PATIENCE_SECONDS
    assert text.count("host.py ") == 3, "nothing else runs it, as root least of all"


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
