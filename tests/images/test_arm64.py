"""The worker's tree for arm64, built here and run under qemu (`make test-images`; needs apt). What it cannot prove: a
real Arm machine, and speed. qemu's user mode runs no other Arm program by itself, so the test starts the interpreter as
the entry would, and items name qemu in front of their program."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.worker_image import cached
from tests.worker_image.conftest import team  # noqa: F401 the same fixture
from tests.worker_image.roots import Root, run_chunk
from tidemill.descriptor import WorkerExit
from worker_image import debian, tools

pytestmark = pytest.mark.skipif(tools.architecture() == "arm64", reason="the tree of this machine is tested natively")

QEMU = "/qemu"
TREE = "/tidemill"
ENTRY = [QEMU, f"{TREE}/tidemill-worker"]
LOADER = [QEMU, f"{TREE}/lib/loader", "--inhibit-cache", "--library-path", f"{TREE}/lib"]
START = [*LOADER, f"{TREE}/py/bin/python3", "-E", "-s", f"{TREE}/site", "worker"]
"""What the entry becomes (worker_image/entry/main.go, start)."""


@pytest.fixture(scope="module")
def tree():
    return cached.build("arm64").tree


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A static program for arm64."""
    target = tmp_path_factory.mktemp("program") / "program"
    env = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOARCH": "arm64"}
    source = os.path.join(os.path.dirname(__file__), "../worker_image/program.go")
    subprocess.run(["go", "build", "-trimpath", "-o", str(target), source], env=env, check=True, timeout=300)
    return target


@pytest.fixture
def root(tmp_path, tree, team):  # noqa: F811 as pytest has it
    """A root of qemu and the tree alone."""
    folder = tmp_path / "root"
    folder.mkdir()
    packages = debian.packages(tools.architecture(), ("qemu-user-static",))
    shutil.copy(packages / "usr/bin/qemu-aarch64-static", folder / QEMU.lstrip("/"))
    return Root(folder, {str(team.root): team.root}, {TREE: tree})


def test_a_chunk_runs(root, team, program):  # noqa: F811 as pytest has it
    shutil.copy(program, root.folder / "program")
    command = [QEMU, "/program", "{input}", "{output}"]
    job, _, done = run_chunk(root, team, command, START, SSL_CERT_FILE=f"{TREE}/certificates.pem", LC_ALL="C.UTF-8")
    assert done.returncode == WorkerExit.DONE, done.stdout + done.stderr
    assert [outcome.status for outcome in job.outcomes()] == ["succeeded"] * 2
    assert [job.outputs(outcome)["copy"] for outcome in job.outcomes()] == [b"item 0", b"item 1"]


def test_every_library_is_for_arm64(tree):
    objects = [path for path in tree.rglob("*") if path.is_file() and path.open("rb").read(4) == b"\x7fELF"]
    headers = subprocess.run(["readelf", "-h", *objects], capture_output=True, text=True, check=True, timeout=60).stdout
    machines = [line.split(":")[1].strip() for line in headers.splitlines() if "Machine:" in line]
    assert len(machines) > 30
    assert set(machines) == {"AArch64"}


def test_the_entry_copies_the_tree_and_starts_its_loader(root, tmp_path, tree):
    target = tmp_path / "volume"
    target.mkdir()
    root.binds = {**root.binds, "/volume": target}
    done = root.run([*ENTRY, "copy", "/volume/worker"], {})
    assert done.returncode == 0, done.stderr
    copied = {path.relative_to(target / "worker") for path in (target / "worker").rglob("*")}
    assert copied >= {path.relative_to(tree) for path in tree.rglob("*")}
    done = root.run([*ENTRY, "start"], {})
    assert f"{TREE}/lib/loader: exec format error" in done.stderr  # this machine's kernel runs no Arm program
