"""A new compute environment replaces another while a job runs on it: nothing is interrupted, nothing runs twice.

The test types what docs/upgrading.md tells a platform team to do. It does not show how long AWS Batch takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.cloud import Cloud
from tests.e2e.team import Team, await_that, team_up
from tests.engine.inventory import client
from tests.gate import Gate

ITEMS = 24
BLUE, GREEN = "demo-local-cpu-spot", "demo-local-cpu-spot-green"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A team of its own, since its environments are different afterwards."""
    with Cloud(tmp_path_factory.mktemp("localcloud")) as cloud:
        yield team_up(cloud, tmp_path_factory.mktemp("demo-aws"))


def busy(team: Team) -> Counter[str]:
    """Running children, by the logical name of their compute environment."""
    machines = team.cloud.control("batch/machines")["machines"]
    return Counter(each["environment"].rpartition("-")[0] for each in machines for _ in each["children"])


def set_capacity(team: Team, *rungs: dict) -> list[str]:
    """Write the queue's rungs, with a placement group, which cannot be added to an environment later; then apply."""
    with team.project.config() as config:
        cpu = config["tidemill:queues"]["cpu"]
        cpu |= {"capacity": list(rungs), "aws": {"placement_group": "spread"}}
    return team.project.up().ok().plan


def test_a_job_goes_on_while_its_environment_is_followed_by_another(alone: Team, held: Gate, tmp_path: Path) -> None:
    team = alone
    items, digests = team.put_items("blue", ITEMS, tmp_path)
    script = f'{held.wait}; sha256sum < "$1" > "$2/sum"'
    job = team.submit("blue", items, "sh", "-c", script, "sh", "{input}", "{output}", chunk_size=2)
    await_that(lambda: busy(team)[BLUE] == 8, "every vCPU of the first environment is at work")

    green = {"market": "spot", "max_cpus": 8, "name": "green"}
    plan = set_capacity(team, green, {"market": "spot", "max_cpus": 8, "drain": True})
    assert {f"create ComputeEnvironment {GREEN}", f"update ComputeEnvironment {BLUE}"} <= set(plan)
    assert "update JobQueue demo-local-cpu-queue" in plan
    assert not [step for step in plan if step.startswith(("replace", "delete", "create-replacement"))]
    await_that(lambda: busy(team)[GREEN] == 4, "the second one runs what waited")
    assert busy(team)[BLUE] == 8

    held.open()
    team.tidemill("wait", job)
    outcomes = team.results(job)
    assert Counter(outcome["index"] for outcome in outcomes) == Counter(range(ITEMS))
    assert {(outcome["status"], outcome["attempts"]) for outcome in outcomes} == {("succeeded", 1)}
    assert all(team.read(each["output"] + "sum").split()[0].decode() == digests[each["index"]] for each in outcomes)
    assert team.status(job)["reclaims"] == 0
    children = team.cloud.control("batch/children")["children"]
    assert {child["attempts"] for child in children} == {1}

    plan = set_capacity(team, green)
    assert f"delete ComputeEnvironment {BLUE}" in plan
    assert not [step for step in plan if step.startswith(("replace", "create"))]
    found = client(team.cloud.env, "batch").describe_compute_environments()["computeEnvironments"]
    assert [each["computeEnvironmentName"].rpartition("-")[0] for each in found] == [GREEN]
