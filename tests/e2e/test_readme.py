"""The commands of the README and of docs/gcp.md, typed exactly as written, on localcloud.

Blocks without the `run` mark need a Docker daemon. The answers of AWS and Google themselves are not shown.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from localcloud.cloud import Cloud, GcpCloud
from localcloud.machines.namespaces import runs
from ops.processes import end_session
from ops.project import ROOT, copy_project
from tests.e2e.gcp import TIME_FACTOR, Objects
from tests.e2e.team import TIMEOUT_SECONDS
from tests.engine.backends.google_backend import emulator
from tests.engine.google import Google
from tests.engine.inventory import client, inventory
from tests.warm import WORKER, python, warmed

README = (ROOT / "README.md").read_text()
ON_GCP = (ROOT / "docs" / "gcp.md").read_text()
RUN = re.compile(r"<!-- run -->\n```(console|python)\n(.*?)```", re.DOTALL)
IN_A_CHECKOUT = re.compile(r"<!-- run in a checkout -->\n```console\n(.*?)```", re.DOTALL)
ITEMS = 8
"""Each has a worker of its own on AWS. The README asks for the lines of item 7."""
ORDINARY = 65534
"""A user without rights, on every machine."""
BUCKETS = ("raw-images", "features")


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with Cloud(tmp_path_factory.mktemp("localcloud")) as running:
        yield running


def team_data(cloud: Cloud, folder: Path) -> None:
    """The buckets that the stack file names, and a list of items."""
    s3 = client(cloud.env, "s3")
    for bucket in BUCKETS:
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    for index in range(ITEMS):
        s3.put_object(Bucket="raw-images", Key=f"{index}.jpg", Body=str(index).encode())
    (folder / "items.txt").write_text("".join(f"s3://raw-images/{index}.jpg\n" for index in range(ITEMS)))


def commands(kind: str, block: str) -> str:
    """A block of the README as input of a shell."""
    return f"python - <<'END'\n{block}END\n" if kind == "python" else block


def type_in(commands: str, folder: Path, env: dict[str, str], before: Sequence[str] = ()) -> str:
    """Type commands into one shell and return its output; the first failure ends it.

    Args:
        before: Words in front of the shell's own command.
    """
    shown = folder / "shown.txt"
    with shown.open("wb") as out:
        process = subprocess.Popen(
            [*before, "bash", "-euxo", "pipefail", "-c", commands],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(TIMEOUT_SECONDS)
        finally:
            end_session(process)
    text = shown.read_text(errors="replace")
    assert code == 0, text
    return text


def checkout(folder: Path, stack: str) -> None:
    """The project before a stack is made, in an empty folder."""
    folder.mkdir()
    copy_project(folder, stack)
    (folder / "bootstrap").mkdir()
    for name in ("Pulumi.yaml", "__main__.py"):
        (folder / "bootstrap" / name).symlink_to(ROOT / "bootstrap" / name)


def shell(cloud: Cloud | GcpCloud, home: Path) -> dict[str, str]:
    """A person's environment: its own home, no backend chosen yet, and "yes" to pulumi's questions. `tidemill` is a
    fork, like processes that run tests; the quickstarts start it as users do."""
    (forked := home / "forked").mkdir()
    program = shutil.which("tidemill", path=cloud.env["PATH"])
    (command := forked / "tidemill").write_text(f'#!/bin/sh\n{WORKER}=1 exec "{python()}" "{program}" "$@"\n')
    command.chmod(0o755)
    env = {key: value for key, value in warmed(cloud.env).items() if key != "PULUMI_BACKEND_URL"}
    path = f"{forked}:{env['PATH']}"
    return env | {"HOME": str(home), "PATH": path, "PULUMI_SKIP_CONFIRMATIONS": "true", "NO_COLOR": "1"}


def clone(folder: Path, cloud: str = "aws") -> None:
    """The checkout's own files, with an environment that `make` considers complete."""
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".*", "build", "__pycache__"))
    (folder / ".venv").mkdir()
    for entry in ("bin", "include", "lib", "pyvenv.cfg"):
        (folder / ".venv" / entry).symlink_to(ROOT / ".venv" / entry)
    (folder / ".venv" / f".{cloud}").touch()


def newcomer(folder: Path, *, ordinary: bool) -> tuple[list[str], dict[str, str]]:
    """The words before a command of a person in a new checkout on a machine without namespaces, and the environment.

    Args:
        ordinary: Whether it is another user, to whom the checkout then belongs. If root does not run the tests, it is
            always the one who does.
    """
    # A make within `make test` would announce its folder, in what is typed next.
    env = {key: value for key, value in os.environ.items() if key not in {"CI", "MAKEFLAGS", "MAKELEVEL"}}
    env |= {"PATH": f"{ROOT / '.venv' / 'bin'}:{env['PATH']}", "NO_COLOR": "1"}
    refused = [sys.executable, str(ROOT / "tests" / "no_namespaces.py")]
    if os.geteuid() != 0 or not ordinary:
        return refused, env
    # What was built is there already. Go and uv write to their caches, so these are the user's, and stay.
    built = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemill"
    cache = built / "worker" / "tests" / f"of-{ORDINARY}"
    (cache / "tidemill").mkdir(parents=True, exist_ok=True)
    for name in ("engine", "pubsub", "worker"):
        if not (link := cache / "tidemill" / name).is_symlink():
            link.symlink_to(built / name)
    (temporary := folder / "tmp").mkdir()
    own = (path for path in folder.rglob("*") if not path.is_symlink())
    for each in (cache, cache / "tidemill", folder.parent, folder, *own):
        os.chown(each, ORDINARY, ORDINARY)
    env |= {"HOME": str(folder), "XDG_CACHE_HOME": str(cache), "TMPDIR": str(temporary)}
    return [*refused, "--user", str(ORDINARY)], env | {"GOPATH": str(Path.home() / "go")}


@pytest.fixture
def place() -> Iterator[Path]:
    """A new folder in which any user may look: pytest's own are its user's alone."""
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        yield Path(folder) / "tidemill"


LAST_LINES = r"""
sed '1,/Everything is still up/d' demo.txt >next.sh
source next.sh
rm demo.txt next.sh
"""
"""What a kept demo says to try next, typed in the same shell."""


def contents(folder: Path) -> dict[str, bytes]:
    """The files that a checkout has, without what programs make there."""
    kept = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    inside = ((path.relative_to(folder), path) for path in kept)
    made = {"build", "tmp", "__pycache__", "shown.txt"}
    return {
        str(name): path.read_bytes()
        for name, path in inside
        if not made & set(name.parts) and not any(part.startswith(".") for part in name.parts)
    }


@pytest.mark.parametrize(("cloud", "ordinary", "keep"), [("aws", True, False), ("gcp", False, True)])
def test_the_demo_where_the_kernel_refuses_namespaces(cloud: str, ordinary: bool, keep: bool, place: Path) -> None:
    """As an ordinary user who sees it end, and as root who keeps it. That namespaces work wherever the kernel allows
    them, the other tests show."""
    clone(place, cloud)
    before, env = newcomer(place, ordinary=ordinary or not runs())
    before_demo = contents(place)
    kept = f" KEEP=1 | tee demo.txt\n{LAST_LINES}" if keep else ""
    shown = type_in(f"make demo CLOUD={cloud}{kept}", place, env, before)
    assert "Machines and containers run as plain processes here" in shown
    assert "105 of 105 outputs are correct." in shown
    assert re.search(r"^Resources:\n +\d+ unchanged$", shown, re.MULTILINE), shown
    if keep:
        assert shown.count(" unchanged\n") == 2, "the demo's preview, and the one that was typed"
    else:
        assert "Nothing is left." in shown
    assert contents(place) == before_demo, "nothing that git tracks has changed"


def test_the_quickstarts(place: Path) -> None:
    """Type them in a new checkout. Installation is not shown; `make bench ONLY=first-hour` does that."""
    clone(place)
    before, env = newcomer(place, ordinary=True)
    run, preview = IN_A_CHECKOUT.findall(README)
    shown = type_in(run, place, env, before)
    assert re.search(r"state +succeeded", shown)
    assert len(list((place / ".tidemill/out").rglob("words.txt"))) > 15
    assert "No item of words-" in shown
    shown = type_in(preview, place, env, before)
    assert "stacks/Pulumi.zoo-dev.yaml" in shown
    assert "aws:batch/jobQueue:JobQueue" in shown
    assert "Traceback" not in shown


def test_the_commands_of_the_readme(cloud: Cloud, tmp_path: Path) -> None:
    folder = tmp_path / "tidemill"
    checkout(folder, "vision-dev")
    team_data(cloud, folder)
    env = shell(cloud, tmp_path)

    blocks = RUN.findall(README)
    assert [kind for kind, _ in blocks].count("console") == 4
    shown = type_in("\n".join(commands(kind, block) for kind, block in blocks), folder, env)

    assert f"{ITEMS}/{ITEMS} items" in shown
    assert re.search(rf"succeeded +{ITEMS}", shown)
    assert f"{ITEMS - 1} succeeded s3://" in shown
    assert "Traceback" not in shown
    left = inventory(cloud.env)
    # What is left belongs to the account: the state, its key, and the team's data.
    assert {name for name in left.pop("s3 Buckets") if not name.startswith("tidemill-state")} == set(BUCKETS)
    assert not {kind for kind in left if kind.startswith("batch")}


def test_the_commands_for_gcp(tmp_path: Path) -> None:
    """Everything except the key of secrets: Pulumi's own client of Cloud KMS reaches only Google. That of Cloud Storage
    takes localcloud for an emulator, so that the state of bootstrap/ moves into its bucket."""
    typed = ON_GCP.replace(' --secrets-provider "$secrets"', "")
    folder = tmp_path / "tidemill"
    checkout(folder, "vision-gcp-dev")
    with GcpCloud(tmp_path / "state", time_factor=TIME_FACTOR) as cloud:
        google = Google(cloud)
        objects = Objects(google)
        for bucket in BUCKETS:
            google.make_bucket(bucket)
        for index in range(ITEMS):
            objects.put("raw-images", f"{index}.jpg", str(index).encode())
        (folder / "items.txt").write_text("".join(f"gs://raw-images/{index}.jpg\n" for index in range(ITEMS)))
        blocks = RUN.findall(typed)
        assert [kind for kind, _ in blocks] == ["console"] * 4
        text = "\n".join(commands(kind, block) for kind, block in blocks)
        with emulator(google) as host:
            # Cloud Storage takes one write a second of each object.
            env = shell(cloud, tmp_path) | {"STORAGE_EMULATOR_HOST": host, "PULUMI_SKIP_CHECKPOINTS": "true"}
            shown = type_in(text, folder, env)
        (bucket,) = {name.rpartition("/")[2] for name in google.names() if "/buckets/tidemill-state-bucket-" in name}
        account = json.loads(objects.get(bucket, ".pulumi/stacks/tidemill-bootstrap/project.json"))
        groups = [name for name in google.names() if "/instanceGroupManagers/" in name]
    assert f"{ITEMS}/{ITEMS} items" in shown
    assert re.search(rf"succeeded +{ITEMS}", shown)
    assert re.search(rf"^ *{ITEMS - 1} +succeeded", shown, re.MULTILINE), shown
    assert "Traceback" not in shown
    assert groups == []
    moved = account["checkpoint"]["latest"]["resources"]
    assert any(each["type"] == "gcp:storage/bucket:Bucket" for each in moved), "the bucket's own stack is in it"


def test_the_two_commands_are_the_makefiles() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for command in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert command in targets
