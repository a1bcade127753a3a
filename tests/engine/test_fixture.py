"""Today's code on the state that an earlier version of it left behind. Previewed only: the resources do not exist."""

from localcloud.cloud import GcpCloud
from tests.engine.export_fixture import GCP_STACK, STACK, fixture
from tests.harness import Project

RELEASED = {"RegionInstanceTemplate", "BucketObject"}
"""What a release replaces without harm: a template that no running machine looks at again, the reconciler's source."""


def test_todays_code_replaces_nothing_of_an_earlier_demo_stack(new_project):
    replaces_nothing(new_project(STACK), STACK, "ComputeEnvironment")


def test_nor_of_one_on_gcp(tmp_path):
    (tmp_path / "project").mkdir()
    with GcpCloud(tmp_path / "state") as cloud:
        replaces_nothing(Project(tmp_path / "project", cloud.env, GCP_STACK), GCP_STACK, "RegionInstanceGroupManager")


def replaces_nothing(project: Project, stack: str, kind: str) -> None:
    project.run("stack", "import", "--file", str(fixture(stack))).ok()
    assert project.resources(kind)
    run = project.preview("--diff").ok()
    gone = [step for step in run.steps if "replace" in step.op or "delete" in step.op]
    assert [str(step) for step in gone if step.kind.rpartition(":")[2] not in RELEASED] == []
    assert run.violations == []
