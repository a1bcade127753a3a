"""Two stacks for the pipeline of one team and environment: the second is refused before anything of it is made.

The tests of a cloud share a stack that is up and run in this order. Two first `up`s at the same moment are not tried:
neither sees the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from localcloud.cloud import Cloud, GcpCloud
from tests.engine.google import Google
from tests.engine.inventory import client
from tests.harness import Project

NewProject = Callable[[], Project]
TAKEN_BY = {"aws": "security group sg-", "gcp": "service account demo-local-worker@"}


@pytest.fixture(scope="module", params=[Cloud, GcpCloud])
def new(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewProject]:
    """Make a stack with the demo's file on one cloud, in a backend of its own."""
    with request.param(tmp_path_factory.mktemp("localcloud")) as running:
        if request.param is GcpCloud:
            google = Google(running)
            google.make_account("photographer")
            google.make_bucket("tidemill-demo-photos")
        else:
            ec2 = client(running.env, "ec2")
            vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
            other = ec2.create_security_group(GroupName="catalog", Description="The team's own", VpcId=vpc)["GroupId"]
            tags = {"tidemill:team": "demo", "tidemill:environment": "local", "Name": "catalog"}
            ec2.create_tags(Resources=[other], Tags=[{"Key": key, "Value": value} for key, value in tags.items()])

        def make() -> Project:
            project = Project(tmp_path_factory.mktemp("copy"), running.env, f"demo-{running.name}")
            with project.config() as config:
                config["tidemill:allow"] = ["purge"]
                if request.param is GcpCloud:
                    config["gcp:project"] = running.project
            return project

        yield make


@pytest.fixture(scope="module")
def first(new: NewProject) -> Project:
    project = new()
    project.up().ok()
    return project


def test_a_second_stack_is_refused_before_anything_is_made(new, first):
    second = new()
    for arguments in (["preview"], ["up", "--yes"], ["up", "--yes", "--skip-preview"]):
        run = second.run(*arguments, events=True).refused()
        (error,) = [each for each in run.errors if "tidemill:environment" in each]
        assert "team 'demo' has a pipeline for 'local' here that is not in this stack's state" in error
        assert TAKEN_BY[second.stack.removeprefix("demo-")] in error
        assert "Traceback" not in run.text
        assert {step.kind for step in run.steps} <= {"pulumi:pulumi:Stack", "tidemill:index:Pipeline"}
        assert second.resources() == []


def test_another_environment_of_the_team_is_not(new, first):
    other = new()
    with other.config() as config:
        config["tidemill:environment"] = "else"
    assert {step.op for step in other.run("preview", events=True).ok().steps} == {"create"}


def test_its_own_next_up_is_not_refused(first):
    assert first.up("--expect-no-changes").ok().plan == []
    with first.config() as config:
        config["tidemill:queues"]["second"] = config["tidemill:queues"]["cpu"]
    assert {step.op for step in first.up().ok().steps} <= {"create", "update", "same"}


def test_the_stack_in_another_backend_is_not_refused(new, first, tmp_path):
    """As after `pulumi stack export`, `pulumi login` elsewhere, and `pulumi stack import`."""
    moved = new()
    with first.config() as old, moved.config() as config:
        config["tidemill:queues"] = old["tidemill:queues"]
    state = tmp_path / "state.json"
    state.write_text(json.dumps(first.export()))
    moved.run("stack", "import", "--file", str(state)).ok()
    assert moved.up("--expect-no-changes").ok().plan == []


def test_what_a_destroy_leaves_takes_nothing(new, first):
    first.destroy().ok()
    assert {step.op for step in new().run("preview", events=True).ok().steps} == {"create"}
