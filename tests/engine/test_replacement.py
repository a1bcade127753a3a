"""Replacing a compute environment that a queue uses, with a relation that lingers after the queue has moved.

How long AWS Batch really keeps that relation is not known; localcloud keeps it for seconds.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcloud.aws.batch.core import Settings
from localcloud.cloud import Cloud
from tests.engine.inventory import client
from tests.harness import Project, Run

ENVIRONMENT = "ComputeEnvironment"

WITHOUT_RETRY = """
import runpy
from tests.mutants import delete_without_retry
delete_without_retry.apply()
runpy.run_path("ordinary.py", run_name="__main__")
"""


@pytest.fixture(scope="module")
def project(cloud, new_project) -> Project:
    project = new_project("demo-aws")
    project.up().ok()
    return project


@pytest.fixture
def replaceable(project) -> Project:
    """The same stack with `tidemill:allow: [replace]`, which the next `up` applies."""
    with project.config() as config:
        config["tidemill:allow"] = ["replace"]
    return project


@pytest.fixture
def lingering(cloud: Cloud) -> Iterator[None]:
    """The relation lasts until a busy engine has tried to delete the old environment."""
    cloud.control("batch/settings", relation_seconds=30)
    yield
    cloud.control("batch/settings", relation_seconds=Settings.relation_seconds)


def environments(cloud: Cloud) -> list[str]:
    """Names of the compute environments that AWS Batch knows."""
    found = client(cloud.env, "batch").describe_compute_environments()["computeEnvironments"]
    return sorted(e["computeEnvironmentName"] for e in found if e["status"] != "DELETED")


def replace(project: Project, *options: str) -> Run:
    return project.up("--replace", urn(project), *options)


def urn(project: Project) -> str:
    return next(r["urn"] for r in project.resources(ENVIRONMENT) if not r.get("delete"))


def order(run: Run) -> list[str]:
    """The steps that a replacement consists of, without names."""
    wanted = ("create-replacement", "update JobQueue", "delete-replaced")
    return [f"{step.op} {step.kind.rpartition(':')[2]}" for step in run.steps if str(step).startswith(wanted)]


def place(project: Project, strategy: str) -> None:
    """Ask for a placement group, which cannot be added to a compute environment later."""
    with project.config() as config:
        config["tidemill:queues"]["cpu"]["aws"] = {"placement_group": strategy}


def test_a_protected_environment_stops_its_replacement_before_anything_happens(project, cloud):
    before = environments(cloud)
    place(project, "spread")
    for run in (project.preview(), project.up()):
        assert "unable to replace resource" in run.refused().text
        assert "protect" in run.text
        assert "Traceback" not in run.text
    assert environments(cloud) == before


def test_taking_a_rung_away_stops_while_it_is_protected(project):
    with project.config() as config:
        queue = config["tidemill:queues"]["cpu"]
        before = queue["capacity"]
        queue["capacity"] = [{"market": "on_demand", "max_cpus": 8}]
    run = project.preview().refused()
    with project.config() as config:
        config["tidemill:queues"]["cpu"]["capacity"] = before
    assert "demo-local-cpu-spot" in run.text
    assert "cannot be deleted\nbecause it is protected" in run.text.replace("\n    ", "\n")


def test_replacing_a_compute_environment_pulumi_aws_6233(replaceable, cloud):
    project = replaceable
    before = environments(cloud)
    place(project, "spread")
    run = project.up().ok()
    (replaced,) = (step for step in run.steps if step.op == "replace")
    assert replaced.replaces == ("computeResources.placementGroup",)
    assert order(run) == [
        "create-replacement ComputeEnvironment",
        "update JobQueue",
        "delete-replaced ComputeEnvironment",
    ]
    after = environments(cloud)
    assert len(after) == len(before)
    assert after != before
    assert project.up("--expect-no-changes").ok()


@pytest.mark.usefixtures("lingering")
def test_without_the_retry_the_replacement_fails_and_the_next_up_mends_it(replaceable, cloud):
    project = replaceable
    before = environments(cloud)
    with project.program(WITHOUT_RETRY):
        run = replace(project).refused()
    assert "JobQueue relationship" in run.text
    assert len(environments(cloud)) == len(before) + 1
    assert [r for r in project.resources(ENVIRONMENT) if r.get("delete")]
    project.up().ok()
    assert len(environments(cloud)) == len(before)
    assert not [r for r in project.resources(ENVIRONMENT) if r.get("delete")]


@pytest.mark.usefixtures("lingering")
def test_an_up_that_is_killed_after_the_queue_moved_is_finished_by_the_next(replaceable, cloud):
    project = replaceable
    before = environments(cloud)

    def queue_moved(events: list[dict]) -> bool:
        """Whether the queue is on the new environment and the retry is waiting."""
        done = [event["resOutputsEvent"]["metadata"] for event in events if "resOutputsEvent" in event]
        told = [event["diagnosticEvent"]["message"] for event in events if "diagnosticEvent" in event]
        moved = any(step["type"].endswith(":JobQueue") and step["op"] == "update" for step in done)
        return moved and any("has not released the job queue yet" in message for message in told)

    with project.start("up", "--yes", "--skip-preview", "--replace", urn(project)) as running:
        running.wait_until(queue_moved)
        project.wait_until_written()
    assert len(environments(cloud)) == len(before) + 1
    assert "lock" in project.up().refused().text
    project.run("cancel", "--yes").ok()
    run = project.up().ok()
    assert "delete-replaced ComputeEnvironment" in order(run)
    after = environments(cloud)
    assert len(after) == len(before)
    assert after != before
    assert project.up("--expect-no-changes").ok()
