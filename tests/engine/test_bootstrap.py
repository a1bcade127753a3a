"""The stack of an account: service-linked roles, the state bucket and its key."""

from ops.project import ROOT
from tests.engine.inventory import client, inventory


def test_the_account_stack_previews_comes_up_and_goes(cloud, new_project):
    before = inventory(cloud.env)
    project = new_project("account", source=ROOT / "bootstrap")
    with project.config() as config:
        config["aws:region"] = cloud.env["AWS_REGION"]
    preview = project.preview().ok()
    assert preview.violations == []
    up = project.up().ok()
    assert sorted(preview.plan) == sorted(up.plan)
    paths = {role["Path"] for role in client(cloud.env, "iam").list_roles()["Roles"]}
    assert {"/aws-service-role/batch.amazonaws.com/", "/aws-service-role/spot.amazonaws.com/"} <= paths
    assert project.up("--expect-no-changes").ok().plan == []
    assert "protect" in project.destroy().refused().text
    with project.config() as config:
        config["tidemill-bootstrap:purge"] = True
    project.up().ok()
    project.destroy().ok()
    assert project.resources() == []
    assert inventory(cloud.env) == before
