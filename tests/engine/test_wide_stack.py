"""The stack with the most in it: two queues, three rungs, NAT, a key, an archive of logs. Not what AWS would accept."""

from tests.engine.inventory import inventory


def test_the_production_stack_comes_up_settles_and_goes(cloud, new_project):
    before = inventory(cloud.env)
    project = new_project("vision-prod")
    with project.config() as config:
        config["tidemill:allow"] = ["purge"]
    run = project.up("--policy-pack", "policy").ok()
    assert {step.op for step in run.steps} == {"create"}
    assert run.violations == []
    assert project.refresh("--expect-no-changes").ok()
    assert project.up("--expect-no-changes").ok().plan == []
    project.destroy().ok()
    assert project.resources() == []
    assert inventory(cloud.env) == before
