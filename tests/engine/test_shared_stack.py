"""A shared stack and a team's stack on one backend, on localcloud. A cloud may answer differently.

The tests share both stacks and run in this order.
"""

from __future__ import annotations

import datetime
import json

import pytest

from ops.project import ROOT
from tests.engine.inventory import client, inventory
from tests.harness import Project

SHARED = "organization/tidemill-shared/prod"
DIGEST = "@sha256:" + "1" * 64
SOON = datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(30)
IMAGES = {"default": f"shared://base{DIGEST}", "own": "registry://preprocess:1.4.0"}


@pytest.fixture(scope="module")
def before(cloud):
    return inventory(cloud.env)


@pytest.fixture(scope="module")
def shared(before, new_project) -> Project:
    project = new_project("prod", source=ROOT / "shared")
    with project.config() as config:
        config["aws:region"] = "us-west-2"
        config["tidemill-shared:purge"] = True
        config["tidemill:waivers"] = [
            {"rule": "aws-any-data-protect", "reason": "It goes again at the end of this test", "until": SOON}
        ]
        config["tidemill-shared:network"] = {"egress": "endpoints", "zones": 2}
        config["tidemill-shared:registry"] = {"repositories": ["base", "tidemill-worker"]}
    return project


@pytest.fixture(scope="module")
def team(shared, new_project) -> Project:
    project = new_project("vision-dev")
    project.env["PULUMI_BACKEND_URL"] = shared.env["PULUMI_BACKEND_URL"]
    project.run("stack", "init").ok()
    with project.config() as config:
        config["tidemill:allow"] = ["purge"]
        config["tidemill:network"] = {"shared": SHARED}
        config["tidemill:registry"] = {"shared": SHARED}
        config["tidemill:worker_image"] = f"shared://tidemill-worker{DIGEST}"
        config["tidemill:queues"]["cpu"]["images"] = IMAGES
    return project


def test_a_stack_that_is_not_there_is_named(team):
    with team.config() as config:
        config["tidemill:network"] = {"shared": "organization/tidemill-shared/prd"}
    run = team.preview().refused()
    (error,) = (message for message in run.errors if "shared" in message)
    assert "\n" not in error.strip()
    assert "Traceback" not in run.text
    assert error.startswith('tidemill:network.shared: "organization/tidemill-shared/prd"')
    assert "unknown stack" in error
    with team.config() as config:
        config["tidemill:network"] = {"shared": SHARED}


def test_the_shared_stack_comes_up_and_says_what_teams_need(shared):
    run = shared.up(*shared.policies()).ok()
    # The protection that `purge` lifts, waived by a key that any program may set.
    assert {name for name, _ in run.violations} == {"aws-any-data-protect"}
    assert all(f"Waived until {SOON}" in message for _, message in run.violations)
    assert any("USD per month, once for all teams" in note for note in run.notes)
    output = shared.outputs()["shared"]
    assert (output["version"], output["cloud"], output["egress"]) == (1, "aws", "endpoints")
    assert len(output["subnet_ids"]) == 2
    assert sorted(output["repositories"]) == ["base", "tidemill-worker"]


def test_the_team_makes_no_network_of_its_own(team, shared, cloud):
    run = team.up(*team.policies()).ok()
    assert any(note.startswith("Idle cost: none. At full capacity: ") for note in run.notes)
    output = shared.outputs()["shared"]
    made = {step.kind.rpartition(":")[2] for step in run.steps}
    assert not made & {"Vpc", "Subnet", "RouteTable", "NatGateway", "InternetGateway", "VpcEndpoint"}
    references = [r["id"] for r in team.export()["deployment"]["resources"] if r["type"].endswith(":StackReference")]
    assert references == [SHARED, SHARED]
    (group,) = team.resources("SecurityGroup")
    (environment,) = client(cloud.env, "batch").describe_compute_environments()["computeEnvironments"]
    resources = environment["computeResources"]
    assert resources["subnets"] == output["subnet_ids"]
    template = client(cloud.env, "ec2").describe_launch_template_versions(
        LaunchTemplateId=resources["launchTemplate"]["launchTemplateId"], Versions=["1"]
    )["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    groups = [*resources.get("securityGroupIds", []), *template.get("SecurityGroupIds", [])]
    for interface in template.get("NetworkInterfaces", []):
        groups += interface.get("Groups", [])
    assert set(groups) == {group["id"], output["security_group_id"]}
    assert team.up("--expect-no-changes").ok().plan == []


def test_the_team_may_pull_what_its_images_name_and_no_more(team, shared, cloud):
    arns = shared.outputs()["shared"]["repositories"]
    role = team.outputs()["execution_role_arn"].rpartition("/")[2]
    iam = client(cloud.env, "iam")
    allowed = set()
    for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        for statement in iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]["Statement"]:
            if "ecr:BatchGetImage" in statement["Action"]:
                allowed |= set(statement["Resource"])
    own = {arn.partition(":repository/")[2] for arn in allowed - set(arns.values())}
    assert own == {"vision-dev/*"}, "its own repositories are those of its namespace"
    assert set(arns.values()) < allowed
    (definition, *_) = client(cloud.env, "batch").describe_job_definitions(status="ACTIVE")["jobDefinitions"]
    assert f"{shared.outputs()['registry_url']}/tidemill-worker{DIGEST}" in json.dumps(definition)


def test_both_go_the_team_first(team, shared, cloud, before):
    team.destroy().ok()
    shared.destroy().ok()
    assert team.resources() == shared.resources() == []
    assert inventory(cloud.env) == before
