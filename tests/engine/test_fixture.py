"""Today's code on the state that an earlier version of it left behind. Previewed only: the resources do not exist."""

from tests.engine.export_fixture import FIXTURE, STACK


def test_todays_code_replaces_nothing_of_an_earlier_demo_stack(new_project):
    project = new_project(STACK)
    project.run("stack", "import", "--file", str(FIXTURE)).ok()
    assert project.resources("ComputeEnvironment")
    run = project.preview("--diff").ok()
    assert [str(step) for step in run.steps if "replace" in step.op or "delete" in step.op] == []
    assert run.violations == []
