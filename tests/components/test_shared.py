"""The shared stack and teams' stacks that use it. Recording mocks show requests, not what a cloud accepts."""

import runpy
from functools import partial
from typing import Any

import pulumi
import pytest

from components.aws.shared import AwsShared, AwsSharedArgs, AwsSharedOutput
from components.gcp.shared import GcpShared, GcpSharedArgs, GcpSharedOutput
from tests.components.recording import Recorder, run, run_with
from tests.components.stacks import ROOT, run_program, settings

STACK = "organization/tidemill-shared/prod"
DIGEST = "@sha256:" + "1" * 64
ARN = "arn:aws:ecr:us-west-2:123456789012:repository/shared-prod"
REPOSITORY = "projects/platform/locations/us-central1/repositories/shared-prod"
ON_AWS: dict[str, Any] = {
    "version": 1,
    "cloud": "aws",
    "region": "us-west-2",
    "egress": "endpoints",
    "vpc_id": "vpc-0123456789abcdef0",
    "subnet_ids": ["subnet-a", "subnet-b"],
    "security_group_id": "sg-shared",
    "registry_url": "123456789012.dkr.ecr.us-west-2.amazonaws.com/shared-prod",
    "repositories": {"base": f"{ARN}/base", "tidemill-worker": f"{ARN}/tidemill-worker"},
}
ON_GCP: dict[str, Any] = {
    "version": 1,
    "cloud": "gcp",
    "region": "us-central1",
    "egress": "nat",
    "network": "projects/platform/global/networks/shared",
    "subnetwork": "projects/platform/regions/us-central1/subnetworks/shared",
    "registry_url": "us-central1-docker.pkg.dev/platform/shared-prod",
    "repository": REPOSITORY,
}


def team(stack: str, output: Any, images: dict[str, str] | None = None, **changes: Any) -> Recorder:
    """Run a team's stack with a network and a registry of the shared stack."""
    return run_program(using_shared(stack, images) | changes, recorder=Recorder(stacks={STACK: {"shared": output}}))


def using_shared(stack: str, images: dict[str, str] | None = None) -> dict[str, Any]:
    values = settings(stack)
    values["tidemill:queues"]["cpu"]["images"] = images or {"default": f"shared://base{DIGEST}"}
    return values | {"tidemill:network": {"shared": STACK}, "tidemill:registry": {"shared": STACK}}


def pulls(recorder: Recorder) -> set[str]:
    """The repositories that the execution role may pull from."""
    found: set[str] = set()
    for made in recorder.of("iam.RolePolicy"):
        for statement in made.document("policy")["Statement"]:
            if "ecr:BatchGetImage" in statement["Action"]:
                found |= set(statement["Resource"])
    return found


def test_a_team_on_aws_runs_in_the_shared_network_with_a_security_group_of_its_own():
    recorder = team("vision-dev", ON_AWS)
    counts = recorder.counts()
    assert not {"ec2.Vpc", "ec2.Subnet", "ec2.RouteTable", "ec2.VpcEndpoint", "ec2.InternetGateway"} & set(counts)
    group = recorder.one("ec2.SecurityGroup")
    assert group.inputs["vpcId"] == ON_AWS["vpc_id"]
    for environment in recorder.of("batch.ComputeEnvironment"):
        assert environment.inputs["computeResources"]["subnets"] == ON_AWS["subnet_ids"]
    (template,) = recorder.of("ec2.LaunchTemplate")
    text = str(template.inputs) + str(recorder.of("batch.ComputeEnvironment"))
    assert "sg-shared" in text
    assert f"{group.name}-id" in text


def test_a_team_on_aws_may_pull_the_repositories_that_its_images_name():
    recorder = team("vision-dev", ON_AWS, {"default": f"shared://base{DIGEST}", "own": "registry://preprocess:1"})
    assert pulls(recorder) == {f"{ARN}/base", ARN.replace("shared-prod", "vision-dev/*")}
    definition = recorder.one("batch.JobDefinition", "vision-dev-cpu-default")
    assert f"{ON_AWS['registry_url']}/base{DIGEST}" in str(definition.inputs)
    looks = [
        statement
        for statement in recorder.document_of("vision-dev-identity-submitter")
        if statement["Action"] == ["ecr:DescribeImages"]
    ]
    assert {resource for statement in looks for resource in statement["Resource"]} == pulls(recorder)


def test_the_shared_worker_may_be_pulled_too():
    recorder = team(
        "vision-dev",
        ON_AWS,
        {"default": "registry://preprocess:1"},
        **{"tidemill:worker_image": f"shared://tidemill-worker{DIGEST}"},
    )
    assert f"{ARN}/tidemill-worker" in pulls(recorder)
    assert f"{ARN}/base" not in pulls(recorder)


def test_a_team_on_gcp_runs_in_the_shared_network_without_addresses():
    recorder = team("vision-gcp-dev", ON_GCP)
    assert not {"compute.Network", "compute.Subnetwork", "compute.Firewall"} & set(recorder.counts())
    (interface,) = recorder.one("compute.RegionInstanceTemplate").inputs["networkInterfaces"]
    assert interface["network"] == ON_GCP["network"]
    assert interface["subnetwork"] == ON_GCP["subnetwork"]
    assert "accessConfigs" not in interface


def test_a_team_on_gcp_may_read_the_one_shared_repository():
    changes: dict[str, Any] = {"tidemill:access": {"submitters": ["group:vision@example.com"]}}
    recorder = team("vision-gcp-dev", ON_GCP, **changes)
    shared = [m for m in recorder.of("artifactregistry.RepositoryIamMember") if m.inputs["repository"] == REPOSITORY]
    assert {(made.inputs["role"], made.inputs["location"]) for made in shared} == {
        ("roles/artifactregistry.reader", "us-central1")
    }
    assert sorted(made.inputs["member"].partition(":")[0] for made in shared) == ["group", "serviceAccount"]
    template = recorder.one("compute.RegionInstanceTemplate")
    assert f"{ON_GCP['registry_url']}/base{DIGEST}" in template.inputs["metadata"]["user-data"]


def test_without_shared_images_nothing_is_granted():
    recorder = team("vision-gcp-dev", ON_GCP, {"default": "registry://preprocess:1"})
    assert [
        m for m in recorder.of("artifactregistry.RepositoryIamMember") if m.inputs["repository"] == REPOSITORY
    ] == []


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (None, ["a stack that has the output `shared`", "after its `pulumi up`"]),
        (ON_AWS | {"version": 2}, ["an output `shared` of version 1, this one is wrong at version", "pulumi up"]),
        ({k: v for k, v in ON_AWS.items() if k != "vpc_id"}, ["wrong at vpc_id"]),
        ("text", ["wrong at its type"]),
        (ON_GCP, ["a stack on aws, this one is on gcp"]),
        (ON_AWS | {"region": "eu-west-1"}, ["a stack in us-west-2, the network of this one is in eu-west-1"]),
        (ON_AWS | {"repositories": {}}, ["the repository 'base', this one has none", "tidemill-shared:registry"]),
    ],
    ids=["no output", "newer version", "a value is missing", "no mapping", "other cloud", "other region", "repository"],
)
def test_a_shared_stack_that_does_not_fit_is_one_line(output: Any, says: list[str]):
    recorder = Recorder(stacks={STACK: {"shared": output} if output is not None else {}})
    with pytest.raises(pulumi.RunError) as caught:
        run_program(using_shared("vision-dev"), recorder=recorder)
    assert {made.kind for made in recorder.resources} == {"Pipeline"}
    line = str(caught.value)
    assert line.startswith(("tidemill:network.shared: ", "tidemill:registry.shared: "))
    assert f'"{STACK}"' in line
    assert "\n" not in line
    for words in says:
        assert words in line


def test_a_stack_that_is_not_there_is_one_line_and_nothing_is_made():
    recorder = Recorder()
    with pytest.raises(pulumi.RunError, match=r"^tidemill:network\.shared: .*backend that you are logged in to"):
        run_program(settings("vision-dev") | {"tidemill:network": {"shared": STACK}}, recorder=recorder)
    assert {made.kind for made in recorder.resources} == {"Pipeline"}


def test_what_is_shared_on_aws():
    outputs: list[dict[str, Any]] = []

    def program() -> None:
        args = AwsSharedArgs(namespace="shared-prod", zones=2, repositories=["base"], tags={"tidemill:shared": "prod"})
        AwsShared("shared-prod", args).shared.apply(outputs.append)

    recorder = run(program)
    (output,) = outputs
    assert AwsSharedOutput.model_validate(output).egress == "nat"
    assert set(output) == set(ON_AWS)
    assert recorder.counts()["ec2.NatGateway"] == 1
    assert len(output["subnet_ids"]) == 2
    assert recorder.one("ecr.Repository").inputs["name"] == "shared-prod/base"
    assert recorder.one("ecr.Repository").options["protect"]
    assert {made.inputs["tags"]["tidemill:shared"] for made in recorder.of("ec2.Subnet")} == {"prod"}


def test_what_is_shared_on_gcp():
    outputs: list[dict[str, Any]] = []
    recorder = run(
        lambda: GcpShared("shared-prod", GcpSharedArgs(repository="shared-prod")).shared.apply(outputs.append)
    )
    (output,) = outputs
    assert GcpSharedOutput.model_validate(output).region == "us-central1"
    assert set(output) == set(ON_GCP)
    assert recorder.counts()["compute.RouterNat"] == 1
    assert recorder.one("artifactregistry.Repository").options["protect"]


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"netwrok": "{}"}, "tidemill-shared:netwrok is not a known key"),
        ({"network": '{"egress": "public"}'}, 'tidemill-shared:network.egress: "public"'),
        ({"network": '{"cidr": "8.8.0.0/16"}'}, 'tidemill-shared:network.cidr: "8.8.0.0/16"'),
        ({"network": "nat"}, 'tidemill-shared:network: "nat"'),
        ({"cloud": "gcp", "network": '{"zones": 2}'}, "tidemill-shared:network.zones: 2"),
        ({"cloud": "gcp", "registry": '{"repositories": ["a"]}'}, 'tidemill-shared:registry.repositories: ["a"]'),
    ],
)
def test_a_wrong_shared_stack_is_one_line_and_nothing_is_made(config: dict[str, str], line: str):
    recorder = Recorder()
    program = partial(runpy.run_path, str(ROOT / "shared" / "__main__.py"), run_name="__main__")
    with pytest.raises(pulumi.RunError) as caught:
        run_with(recorder, program, config={f"tidemill-shared:{key}": value for key, value in config.items()})
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)
    assert recorder.resources == []
