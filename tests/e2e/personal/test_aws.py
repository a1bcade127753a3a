"""`tidemill up` and `down` on AWS, from the installed distributions: nothing is left, and nothing is made twice.

Not proven: that AWS lets an administrator do all this, how long it takes, and that the CLI can be downloaded.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.cloud import Cloud
from tests.e2e.personal.person import COUNT, EMAIL, Person, changes, installed
from tests.engine.inventory import client, inventory

BATCH_AND_SPOT = {"AWSServiceRoleForbatch", "AWSServiceRoleForspot"}
"""The service-linked roles, which stay: they are the account's."""
FIRST = ("--email", EMAIL)


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


def test_without_a_yes_nothing_is_made(ada, cloud, before):
    assert "--yes" in ada.tidemill("up", "--name", "ada", *FIRST, code=2)
    assert left(cloud) == before


def test_up_makes_it_and_says_what_it_costs_and_what_to_type(ada, cloud):
    printed = ada.up()
    assert "Idle: 1.00 USD per month, and 1.00 USD for the key" in printed
    assert "tidemill submit" in printed.splitlines()[-1]
    assert "make worker PUSH=" in printed
    assert "ada-personal" in ada.tidemill("use")
    budgets = client(cloud.env, "budgets").describe_budgets(AccountId="123456789012")["Budgets"]
    assert [float(each["BudgetLimit"]["Amount"]) for each in budgets] == [50]
    assert not list(ada.folder.glob(".*-home")), "the state is in the bucket"


def test_another_up_changes_nothing(ada, cloud):
    standing = inventory(cloud.env)
    printed = ada.up("--json")
    assert changes(printed) == {}
    assert inventory(cloud.env) == standing


def test_a_job_runs(ada, tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("x" * (number + 1))
    ada.tidemill("submit", "--name", "first", "--items", str(tmp_path), "--shell", "--", COUNT)
    ada.tidemill("wait", "first")
    ada.tidemill("fetch", "first", "-o", str(tmp_path / "out"))
    found = sorted(path.read_text().strip() for path in (tmp_path / "out").rglob("bytes.txt"))
    assert found == ["1", "2", "3"]


def test_options_and_edits_of_the_file_are_changes(ada):
    file = ada.folder / "Pulumi.ada-personal.yaml"
    file.write_text(file.read_text().replace("config:\n", "config:\n  # mine\n", 1))
    assert changes(ada.up("--budget", "70", "--json")) == {"update": 1}
    assert {"  # mine", "    monthly_usd: 70"} <= {*file.read_text().splitlines()}


def test_the_policies_hold(ada, cloud):
    standing = inventory(cloud.env)
    with ada.edited("max_cpus: 32", "max_cpus: 32000"):
        assert "cpu-cap" in ada.up(code=3)
    assert inventory(cloud.env) == standing


def test_a_wrong_key_and_another_account_are_told(ada):
    with ada.edited("max_cpus", "max_cpu"):
        assert "max_cpu is not a known key" in ada.up(code=2)
        assert "max_cpu is not a known key" in ada.down("--confirm", "ada-personal", code=2)
    with ada.edited("123456789012'", "210987654321'"):
        assert "210987654321" in ada.up(code=2)
    assert "us-west-2" in ada.up("--region", "eu-west-1", code=2)


def test_another_laptop_finds_it(ada, cloud, program, tmp_path):
    other = Person(program, cloud.env, tmp_path / "home")
    assert changes(other.up("--json")) == {}
    assert "monthly_usd: 70" in (other.folder / "Pulumi.ada-personal.yaml").read_text()


def test_down_refuses_while_a_job_runs_and_asks_for_the_name(ada, tmp_path):
    (tmp_path / "one.txt").write_text("x")
    ada.tidemill("submit", "--name", "long", "--items", str(tmp_path), "--shell", "--", "sleep 600")
    assert "--cancel-jobs" in ada.down("--confirm", "ada-personal", code=2)
    assert "--confirm" in ada.down("--cancel-jobs", code=2)
    assert "ada-personal" in ada.down("--confirm", "other", code=2)


def test_down_leaves_nothing(ada, cloud, before):
    ada.down("--cancel-jobs", "--confirm", "ada-personal")
    assert left(cloud) == before
    assert [path.name for path in sorted(ada.folder.iterdir())] == [".lock", "Pulumi.ada-personal.yaml", "Pulumi.yaml"]
    assert "There is no ada-personal" in ada.down("--confirm", "ada-personal")
    assert "No context" in ada.tidemill("use")


UP = ("up", "--name", "ada", "--yes", *FIRST)
DOWN = ("down", "--name", "ada", "--confirm", "ada-personal")


def test_interrupted_commands_go_on(ada, cloud, before):
    """While the home is made, and while the pipeline is, and the same of their removal."""
    ada.stopped_at("create  aws:s3/bucket:Bucket  tidemill-ada-state-bucket", signal.SIGINT, *UP)
    assert list(ada.folder.glob(".*-home"))
    ada.stopped_at("create  aws:s3/bucket:Bucket  ada-personal-store-bucket", signal.SIGINT, *UP)
    ada.up()
    assert changes(ada.up("--json")) == {}
    ada.stopped_at("delete  aws:batch/jobQueue:JobQueue", signal.SIGINT, *DOWN)
    ada.stopped_at("delete  aws:s3/bucketPolicy:BucketPolicy  tidemill-ada-state", signal.SIGINT, *DOWN)
    ada.down("--confirm", "ada-personal")
    assert left(cloud) == before


def test_a_killed_up_leaves_a_lock_that_is_named(ada):
    """Not proven: a `down` after it. What the engine had begun and does not know of may stand in its way."""
    ada.stopped_at("create  aws:batch/schedulingPolicy:SchedulingPolicy  ada", signal.SIGKILL, *UP)
    assert "--unlock" in ada.up(code=2)
    assert "Changes: " in ada.up("--preview", "--unlock")
