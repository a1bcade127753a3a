"""`tidemill up` and `down` on AWS, from the installed distributions: nothing is left, and nothing is made twice.

One pipeline goes through all of it, in the order of the tests. Not proven: that AWS lets an administrator do all this,
how long it takes, that the CLI can be downloaded, and what a killed engine leaves besides its lock.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.cloud import Cloud
from tests.e2e.personal.person import EMAIL, Person, changes, installed
from tests.engine.inventory import client, inventory

BATCH_AND_SPOT = {"AWSServiceRoleForbatch", "AWSServiceRoleForspot"}
"""The service-linked roles, which stay: they are the account's."""
FIRST = ("--email", EMAIL)
UP = ("up", "--name", "ada", "--yes", *FIRST)
DOWN = ("down", "--name", "ada", "--cancel-jobs", "--confirm", "ada-personal")
LOCK = {"pid": 1, "username": "ada", "hostname": "laptop", "timestamp": "2026-01-01T00:00:00Z"}
"""Source: lockContent in pulumi/pkg/backend/diy/lock.go."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with Cloud(tmp_path_factory.mktemp("localcloud")) as running:
        yield running


@pytest.fixture(scope="module")
def before(cloud) -> dict[str, list[str]]:
    return inventory(cloud.env)


@pytest.fixture(scope="module")
def ada(program, cloud, before, tmp_path_factory) -> Person:
    return Person(program, cloud.env, tmp_path_factory.mktemp("ada"))


def left(cloud: Cloud) -> dict[str, list[str]]:
    """What is in the account, but for the service-linked roles."""
    found = inventory(cloud.env)
    found["iam Roles"] = [name for name in found.get("iam Roles", []) if name not in BATCH_AND_SPOT]
    return {kind: names for kind, names in found.items() if names}


def test_a_preview_makes_nothing(ada, cloud, before):
    assert changes(ada.tidemill("up", "--name", "ada", "--preview", "--json", *FIRST))["create"] > 50
    assert left(cloud) == before


def test_an_interrupted_up_goes_on_and_says_what_it_costs_and_what_to_type(ada, cloud):
    """It is interrupted while the home is made, and while the pipeline is."""
    ada.stopped_at("create  aws:s3/bucket:Bucket  tidemill-ada-state-bucket", signal.SIGINT, *UP)
    assert list(ada.folder.glob(".*-home"))
    ada.stopped_at("create  aws:s3/bucket:Bucket  ada-personal-store-bucket", signal.SIGINT, *UP)
    printed = ada.up()
    assert "Idle: 1.00 USD per month, and 1.00 USD for the key" in printed
    assert "tidemill submit" in printed.splitlines()[-1]
    assert "make worker PUSH=" in printed
    assert "ada-personal" in ada.tidemill("use")
    budgets = client(cloud.env, "budgets").describe_budgets(AccountId="123456789012")["Budgets"]
    assert [float(each["BudgetLimit"]["Amount"]) for each in budgets] == [50]
    assert not list(ada.folder.glob(".*-home")), "the state is in the bucket"


def test_the_lock_of_a_killed_command_is_named_and_removed(ada, cloud):
    """Options and edits of the file are changes."""
    s3 = client(cloud.env, "s3")
    (bucket,) = (each["Name"] for each in s3.list_buckets()["Buckets"] if each["Name"].startswith("tidemill-ada"))
    lock = ".pulumi/locks/organization/tidemill/ada-personal/killed.json"
    s3.put_object(Bucket=bucket, Key=lock, Body=json.dumps(LOCK).encode())
    assert "--unlock" in ada.up(code=2)
    file = ada.folder / "Pulumi.ada-personal.yaml"
    file.write_text(file.read_text().replace("config:\n", "config:\n  # mine\n", 1))
    assert changes(ada.up("--unlock", "--budget", "70", "--json")) == {"update": 1}
    assert {"  # mine", "    monthly_usd: 70"} <= {*file.read_text().splitlines()}


def test_another_laptop_finds_it_and_changes_nothing(cloud, program, tmp_path):
    standing = inventory(cloud.env)
    other = Person(program, cloud.env, tmp_path / "home")
    assert changes(other.up("--json")) == {}
    assert inventory(cloud.env) == standing
    assert "monthly_usd: 70" in (other.folder / "Pulumi.ada-personal.yaml").read_text()


def test_the_policies_hold(ada, cloud):
    standing = inventory(cloud.env)
    with ada.edited("max_cpus: 32", "max_cpus: 32000"):
        assert "cpu-cap" in ada.up(code=3)
    assert inventory(cloud.env) == standing


def test_a_job_runs(ada, tmp_path):
    ada.count_bytes(tmp_path)


def test_down_refuses_while_a_job_runs(ada, tmp_path):
    (tmp_path / "one.txt").write_text("x")
    ada.tidemill("submit", "--name", "long", "--items", str(tmp_path), "--shell", "--", "sleep 600")
    assert "--cancel-jobs" in ada.down("--confirm", "ada-personal", code=2)


def test_down_refuses_while_another_stack_has_its_state_in_the_bucket(ada, cloud, tmp_path):
    (bucket,) = (
        each["Name"]
        for each in client(cloud.env, "s3").list_buckets()["Buckets"]
        if each["Name"].startswith("tidemill-ada-state")
    )
    (tmp_path / "Pulumi.yaml").write_text("name: vision\nruntime: yaml\n")
    backend = f"s3://{bucket}?region=us-west-2&use_path_style=true"
    env = {**ada.env, "PULUMI_BACKEND_URL": backend, "PULUMI_CONFIG_PASSPHRASE": ""}

    def stack(*arguments: str) -> None:
        command = ["pulumi", "stack", *arguments, "--non-interactive"]
        subprocess.run(command, cwd=tmp_path, env=env, check=True, capture_output=True, timeout=300)

    stack("init", "dev")
    standing = inventory(cloud.env)
    assert "vision/dev" in ada.down("--cancel-jobs", "--confirm", "ada-personal", code=2)
    assert inventory(cloud.env) == standing
    stack("rm", "dev", "--yes")


def test_a_down_that_was_interrupted_and_killed_goes_on_and_leaves_nothing(ada, cloud, before):
    """It is interrupted while the pipeline is deleted, and killed while the home is, whose lock is on this machine."""
    ada.stopped_at("delete  aws:batch/jobQueue:JobQueue", signal.SIGINT, *DOWN)
    ada.stopped_at("delete  aws:s3/bucketPolicy:BucketPolicy  tidemill-ada-state", signal.SIGKILL, *DOWN)
    assert "--unlock" in ada.down("--confirm", "ada-personal", code=2)
    ada.down("--unlock", "--confirm", "ada-personal")
    assert left(cloud) == before
    assert [path.name for path in sorted(ada.folder.iterdir())] == [".lock", "Pulumi.ada-personal.yaml", "Pulumi.yaml"]
    assert "There is no ada-personal" in ada.down("--confirm", "ada-personal")
    assert "No context" in ada.tidemill("use")
