"""The review of the real engine's current output, compared with its recording (tests/ops/make_previews.py)."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from ops.project import ROOT
from tests.harness import typed
from tests.ops.make_previews import load, record
from tests.ops.scenarios import BASES
from tidemill.folders import cache_folder

SCENARIO = "wider-access"
STANDING = {"ipv6CidrBlockNetworkBorderGroup": "us-west-2"}
"""A property that localcloud does not have."""
ON_DEMAND = {
    "images": {"default": "registry://steady:1.0.0"},
    "capacity": [{"market": "on_demand", "max_cpus": 8}],
}


def shape(document: dict) -> dict:
    """The parts of a preview that a review uses, without values, which our releases may change."""
    steps = document["preview"]["steps"]
    return {
        "keys": sorted(document),
        "changed": {
            step["urn"]: (step["op"], sorted(step), sorted(step.get("detailedDiff") or {}))
            for step in steps
            if step["op"] != "same"
        },
    }


def test_the_recordings_are_what_the_engine_says_today():
    base = next(base for base in BASES if any(scenario.name == SCENARIO for scenario in base.scenarios))
    ((_, found),) = record(base, {SCENARIO})
    assert shape(found) == shape(json.loads(load(SCENARIO))), "python -m tests.ops.make_previews records them anew"


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)


def copy_code(folder: Path) -> None:
    """Copy what a stack's program and `ops` consist of, without any stack, for a checkout of its own."""
    for name in ("Pulumi.yaml", "__main__.py", "bootstrap", "components", "tidemill", "policy", "ops", "localcloud"):
        source, ignored = ROOT / name, shutil.ignore_patterns("__pycache__", ".pulumi", "Pulumi.*.yaml")
        shutil.copytree(source, folder / name, ignore=ignored) if source.is_dir() else shutil.copy(source, folder)
    (folder / "stacks").mkdir()
    (folder / ".gitignore").write_text(".venv*\n__pycache__/\n")
    (folder / ".venv").symlink_to(ROOT / ".venv")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A checkout on a branch that left main. main has moved on since, to a program that would not come up."""
    folder = tmp_path_factory.mktemp("checkout")
    copy_code(folder)
    shutil.copytree(ROOT / "stacks", folder / "stacks", dirs_exist_ok=True)
    for stack in ("vision-dev", "vision-gcp-dev"):
        with stack_file(folder, stack) as config:
            config["tidemill:queues"]["nightly"] = {"images": {"default": "registry://digest:1.0.0"}}
            if stack == "vision-dev":
                config["tidemill:overrides"] = {"vision-dev-network-vpc": STANDING}
                config["tidemill:queues"]["steady"] = ON_DEMAND
            if "gcp" in stack:
                config["tidemill:monitoring"] = {"dashboard": True}
                config["tidemill:file_systems"] = {"models": {"tier": "basic_ssd", "size_gib": 5120, "zone": "a"}}
                mount = {"file_system": "models", "path": "/mnt/models"}
                config["tidemill:queues"]["nightly"]["mounts"] = {"models": mount}
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "base")
    git(folder, "branch", "change")
    (folder / "__main__.py").write_text("raise ValueError('the branch does not have this')\n")
    git(folder, "commit", "-qam", "others")
    git(folder, "switch", "-q", "change")
    return folder


@contextmanager
def stack_file(folder: Path, stack: str) -> Iterator[dict]:
    path = folder / "stacks" / f"Pulumi.{stack}.yaml"
    content = yaml.safe_load(path.read_text())
    yield content["config"]
    path.write_text(yaml.safe_dump(content))


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch) -> None:
    """A cache folder with nothing but the built engine and Pub/Sub, as if this were not CI."""
    folder = tmp_path_factory.mktemp("cache") / "tidemill"
    folder.mkdir()
    for built in ("engine", "pubsub"):
        (folder / built).symlink_to(cache_folder() / built)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent))
    monkeypatch.delenv("CI", raising=False)


def review(folder: Path, stack: str, wanted: int) -> tuple[dict, str]:
    target = folder / ".venv-review.json"
    options = ("--stack", stack, "--json", str(target), "--markdown", "review.md")
    code, output = typed("-m", "ops", "review", *options, cwd=folder)
    assert code == wanted, output
    (found,) = json.loads(target.read_text())["stacks"]
    return found, (folder / "review.md").read_text()


def lost(found: dict) -> set[tuple[str, str]]:
    return {(each["severity"], each["resource"]) for each in found["findings"] if each["kind"] == "state-lost"}


@pytest.mark.parametrize(
    ("stack", "gone"),
    [
        ("vision-dev", {("critical", "vision-dev-registry-digest")}),
        (
            "vision-gcp-dev",
            {
                ("critical", f"vision-dev-{what}")
                for what in ("nightly-topic", "nightly-work", "nightly-dead", "fs-models-files")
            },
        ),
    ],
)
def test_a_queue_that_goes_is_compared_with_the_commit_that_the_branch_left(checkout, stack, gone):
    with stack_file(checkout, stack) as config:  # not committed
        del config["tidemill:queues"]["nightly"]
        config.pop("tidemill:file_systems", None)
    found, markdown = review(checkout, stack, 5)
    (kept,) = (cache_folder() / "bases").iterdir()
    written = kept.stat().st_mtime_ns, kept.read_bytes()
    assert review(checkout, stack, 5) == (found, markdown), "the kept base says the same"
    assert kept.read_bytes() == written[1]
    assert kept.stat().st_mtime_ns > written[0], "it was used"
    assert lost(found) == gone
    assert ("critical", "failed") in {(each["severity"], each["kind"]) for each in found["findings"]}, "protected"
    assert (found["failed"], found["first"], found["whole"]) == (False, False, True)
    assert found["base"].startswith("main (")
    assert f"`{stack}`: compared with `main (" in markdown


def test_what_stood_before_is_apart_from_what_a_change_brings(checkout):
    """The base has a queue that starts On-Demand and an override that localcloud does not imitate; both stay, and each
    gets company."""
    git(checkout, "checkout", "-q", "--", "stacks")
    with stack_file(checkout, "vision-dev") as config:
        config["aws:defaultTags"] = {"tags": {"CostCenter": "4711"}}
        config["tidemill:queues"]["fast"] = {**ON_DEMAND, "images": {"default": "registry://fast:1.0.0"}}
        config["tidemill:overrides"]["vision-dev-network-machines"] = {"ingress": [{"protocol": "tcp"}]}
    found, _ = review(checkout, "vision-dev", 0)
    told = {(each["severity"], each["resource"].rpartition("::")[2], each["title"]) for each in found["findings"]}
    rule = "aws-batch-job-queue-spot-first, advisory"
    assert ("low", "vision-dev-steady-queue", f"{rule}, as before") in told
    assert ("medium", "vision-dev-fast-queue", rule) in told
    left = ("ipv6CidrBlockNetworkBorderGroup", "ingress")
    titles = [f"not judged: {each}, which localcloud does not imitate" for each in left]
    assert ("low", "vision-dev-network-vpc", f"{titles[0]}, as before") in told
    assert ("high", "vision-dev-network-machines", titles[1]) in told
    assert {each["op"] for each in found["changes"]} >= {"create", "update"}, "the preview goes on"


def test_a_preview_asks_the_cloud_about_what_a_kept_base_made(checkout):
    git(checkout, "checkout", "-q", "--", "stacks")
    review(checkout, "vision-gcp-dev", 0)
    with stack_file(checkout, "vision-gcp-dev") as config:
        config["tidemill:file_systems"]["models"]["size_gib"] = 2560
    found, _ = review(checkout, "vision-gcp-dev", 5)
    assert "tidemill:file_systems.models.size_gib" in "".join(found["errors"])


def test_a_stack_that_the_base_does_not_have_gets_no_verdict(checkout):
    text = (ROOT / "stacks" / "Pulumi.vision-dev.yaml").read_text()
    (checkout / "stacks" / "Pulumi.maps-dev.yaml").write_text(text.replace("team: vision", "team: maps"))
    found, markdown = review(checkout, "maps-dev", 0)
    count = found["counts"]["create"]
    assert (found["failed"], found["first"], len(found["changes"]) == count > 30) == (False, True, True)
    assert {fleet["name"]: fleet["cpus_after"] for fleet in found["fleets"]}["maps-dev-cpu-spot"] == 64
    headline = (
        f"## Tidemill: first deployment of {count} resources; nothing to compare with\n\n`maps-dev`: not in `main ("
    )
    assert markdown.startswith(headline)
    assert "nothing dangerous" not in markdown
