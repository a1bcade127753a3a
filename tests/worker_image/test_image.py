"""The image: reproducible, and accepted by a registry and a machine. It cannot prove what ECR and Docker accept."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import time
import tomllib

import pytest

from worker_image import image, oci, tools, tree
from worker_image.tools import BuildError


@pytest.fixture
def registry(tmp_path):
    """A registry on loopback. Answers its address."""
    log = tmp_path / "registry.log"
    with log.open("wb") as output:
        command = [str(tools.crane()), "registry", "serve", "--address", "127.0.0.1:0"]
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        end = time.monotonic() + 60
        while not (found := re.search(r"serving on port (\d+)", log.read_text())):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        yield f"127.0.0.1:{found[1]}"
    finally:
        server.kill()
        server.wait(timeout=60)


def test_two_builds_give_one_digest(built, tmp_path, monkeypatch):
    checkout = tmp_path / "another checkout"
    for name in ("tidemill", "worker_image"):
        shutil.copytree(tree.ROOT / name, checkout / name)
    left = checkout / "tidemill" / "ledger" / "moved" / "__pycache__"  # of a folder that another commit had
    left.mkdir(parents=True)
    (left / "old.cpython-311.pyc").touch()
    monkeypatch.setattr(tree, "ROOT", checkout)
    before = os.umask(0o077)  # what a machine's user is used to must not matter
    try:
        again = image.build(tmp_path / "again")
    finally:
        os.umask(before)
    assert again.digest == built.digest


def test_every_blob_is_what_its_name_says(built):
    blobs = list((built.layout / "blobs" / "sha256").iterdir())
    assert len(blobs) == 3
    for blob in blobs:
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    index = json.loads((built.layout / "index.json").read_text())
    assert index["manifests"][0]["digest"] == built.digest


def test_no_time_owner_or_path_of_this_machine(built):
    manifest = blob(built, built.digest)
    layer = built.layout / "blobs/sha256" / manifest["layers"][0]["digest"].removeprefix("sha256:")
    with tarfile.open(layer) as tar:
        members = tar.getmembers()
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members} == {(0, 0, 0, "", "")}
    assert [m.name for m in members] == sorted(m.name for m in members)
    assert {m.name.split("/")[0] for m in members} == {"tidemill"}
    checkout = str(tree.ROOT).encode()
    found = [path for path in built.tree.rglob("*") if path.is_file() and checkout in path.read_bytes()]
    assert found == []


def test_a_registry_takes_it(built, registry, tmp_path):
    reference = image.push(built.layout.parent, f"{registry}/demo/worker", insecure=True)
    assert reference == f"{registry}/demo/worker@{built.digest}"
    done = tools.run([str(tools.crane()), "validate", "--insecure", "--remote", reference])
    assert done.returncode == 0, done.stderr
    # A registry of a stack takes each tag once, so every build has one of its own.
    tags = tools.run([str(tools.crane()), "ls", "--insecure", f"{registry}/demo/worker"]).stdout.split()
    assert tags == [built.digest.removeprefix("sha256:")[:16]]
    assert image.push(built.layout.parent, f"{registry}/demo/worker", insecure=True) == reference
    config = tools.run([str(tools.crane()), "config", "--insecure", reference]).stdout
    assert json.loads(config)["config"]["Entrypoint"] == ["/tidemill/tidemill-worker"]


def test_a_registry_that_is_not_there(built):
    with pytest.raises(BuildError, match=r"not pushed to 127\.0\.0\.1:1/demo:\n.*refused"):
        image.push(built.layout.parent, "127.0.0.1:1/demo", insecure=True)


def test_nothing_was_built(tmp_path):
    with pytest.raises(BuildError, match="run `make worker` first"):
        image.push(tmp_path, "127.0.0.1:1/demo")


def test_it_holds_what_worker_and_sender_import_and_no_more(built):
    names = {path.name for path in (built.tree / "site" / "tidemill").iterdir()}
    assert names >= {"worker", "client", "ledger", "store", "manifest.py"}
    assert names.isdisjoint(tree.NOT_OURS)
    installed = {path.name.split("-")[0] for path in (built.tree / "site").glob("*.dist-info")}
    assert installed >= {"boto3", "obstore", "pydantic", "pydantic_core", "zstandard"}
    assert installed.isdisjoint({"cryptography", "moto", "pulumi", "rich"})
    models = {path.name for path in (built.tree / "site/botocore/data").iterdir() if path.is_dir()}
    assert models == {*tree.AWS_MODELS}
    assert tree.size(built.tree) < 90e6
    assert built.size < 35e6


def test_its_version_is_the_packages():
    project = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())
    assert image.version() == project["project"]["version"]


def test_a_layer_holds_folders_files_and_links(tmp_path):
    source = tmp_path / "source"
    (source / "bin").mkdir(parents=True)
    (source / "bin/run").write_text("run")
    (source / "bin/run").chmod(0o700)
    (source / "sh").symlink_to("bin/run")
    layout = oci.Layout(tmp_path / "layout")
    digest = layout.write({"usr/local": source}, "amd64", {"Env": ["A=b"]})
    manifest = json.loads((layout.folder / "blobs/sha256" / digest.removeprefix("sha256:")).read_text())
    layer = layout.folder / "blobs/sha256" / manifest["layers"][0]["digest"].removeprefix("sha256:")
    with tarfile.open(layer) as tar:
        found = {m.name: (m.type, m.mode, m.linkname) for m in tar}
    folder, link = (tarfile.DIRTYPE, 0o755, ""), (tarfile.SYMTYPE, 0o644, "bin/run")
    run = (tarfile.REGTYPE, 0o755, "")
    assert found == {
        "usr": folder, "usr/local": folder, "usr/local/bin": folder, "usr/local/bin/run": run, "usr/local/sh": link,
    }  # fmt: skip


def blob(built, digest: str) -> dict:
    return json.loads((built.layout / "blobs/sha256" / digest.removeprefix("sha256:")).read_text())
