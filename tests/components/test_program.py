"""The program on each stack of AWS. Recording mocks prove what is requested, not that AWS accepts it."""

import inspect
import json
import re
from functools import partial
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest

from components import reference
from components.pipeline import NoOutputError, Pipeline, PipelineArgs
from tests.components.recording import ACCOUNT, Made, Recorder, run
from tests.components.stacks import AWS_STACKS, GCP_STACKS, ROOT, run_program, run_stack, settings
from tidemill.descriptor import Descriptor


@pytest.fixture(scope="module", params=AWS_STACKS)
def stack(request: pytest.FixtureRequest) -> tuple[str, Recorder]:
    return request.param, run_stack(request.param)


def test_every_kind_of_team_is_there():
    assert AWS_STACKS == ["climate-dev", "demo-aws", "genomics-prod", "speech-prod", "vision-dev", "vision-prod"]
    assert GCP_STACKS == ["climate-gcp-dev", "demo-gcp", "documents-gcp-prod", "vision-gcp-dev", "vision-gcp-prod"]
    assert {settings(stack)["tidemill:cloud"] for stack in GCP_STACKS} == {"gcp"}


def test_every_part_is_a_child_of_the_pipeline(stack):
    _, recorder = stack
    pipeline = recorder.one("Pipeline")
    assert pipeline.chain == ["tidemill:index:Pipeline"]
    for made in recorder.resources:
        assert made.chain[0] == "tidemill:index:Pipeline"
        if made.type.startswith("aws:"):
            owner = made.chain[1]
            assert re.fullmatch(r"tidemill:index:Aws\w+", owner), made.urn
            assert len(made.chain) == 3, made.urn


def test_names_derive_from_the_component_that_makes_them(stack):
    _, recorder = stack
    for made in recorder.resources:
        assert made.name.startswith(recorder.one("Pipeline").name)


def test_everything_that_can_carry_tags_carries_the_teams(stack):
    name, recorder = stack
    expected = {
        "tidemill:team": settings(name)["tidemill:team"],
        "tidemill:environment": settings(name)["tidemill:environment"],
    }
    tagged = 0
    for made in recorder.resources:
        if _taggable(made):
            tagged += 1
            assert expected.items() <= made.inputs.get("tags", {}).items(), made.name
    assert tagged > 20


def _taggable(made: Made) -> bool:
    if not made.type.startswith("aws:"):
        return False
    module, kind = made.type.split(":")[1].split("/")[0], made.type.split(":")[2]
    return "tags" in inspect.signature(getattr(getattr(aws, module), kind)._internal_init).parameters


def test_a_tag_never_reaches_compute_resources(stack):
    """Tags that replace a compute environment (terraform-aws-batch): machines get theirs from the launch template."""
    for environment in stack[1].of("batch.ComputeEnvironment"):
        assert "tags" not in environment.inputs["computeResources"]
    for template in stack[1].of("ec2.LaunchTemplate"):
        kinds = {spec["resourceType"]: spec["tags"] for spec in template.inputs["tagSpecifications"]}
        assert set(kinds) == {"instance", "volume"}
        assert all("tidemill:team" in tags for tags in kinds.values())


def test_no_policy_allows_a_wildcard_action(stack):
    for statement in _statements(stack[1]):
        if statement["Effect"] == "Allow" and statement.get("Principal", {}) != {"AWS": _root()}:
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            assert not [action for action in actions if "*" in action], statement


def _root() -> str:
    return "arn:aws:iam::123456789012:root"


def _statements(recorder: Recorder) -> list[dict[str, Any]]:
    keys = ("policy", "assumeRolePolicy")
    texts = [made.inputs[key] for made in recorder.resources for key in keys if key in made.inputs]
    documents = [json.loads(text) for text in texts]
    return [statement for document in documents for statement in document.get("Statement", [])]


def test_nothing_lets_anything_in(stack):
    assert stack[1].of("ec2.SecurityGroup")
    for rule in stack[1].of("vpc.SecurityGroupIngressRule"):
        # Only the machines reach interface endpoints.
        assert rule.name.endswith("-endpoints-in")
        assert rule.inputs["referencedSecurityGroupId"]
        assert not {"cidrIpv4", "cidrIpv6", "prefixListId"} & set(rule.inputs)
    assert not [group for group in stack[1].of("ec2.SecurityGroup") if "ingress" in group.inputs]


def test_nothing_stands_idle_in_the_demo():
    counts = run_stack("demo-aws").counts()
    for kind in ("ec2.NatGateway", "ec2.Eip", "kms.Key", "kinesis.FirehoseDeliveryStream"):
        assert kind not in counts
    endpoints = run_stack("demo-aws").of("ec2.VpcEndpoint")
    assert [endpoint.inputs["vpcEndpointType"] for endpoint in endpoints] == ["Gateway"]


@pytest.mark.parametrize(
    ("allow", "protected"),
    [
        ([], {"Protection", "batch.ComputeEnvironment", "batch.JobQueue", "ecr.Repository", "kms.Key", "s3.Bucket"}),
        (["replace"], {"Protection", "ecr.Repository", "kms.Key", "s3.Bucket"}),
        (["purge"], set()),
    ],
)
def test_allow_lifts_protection(allow: list[str], protected: set[str]):
    recorder = run_stack("vision-dev", allow=allow, store={"kms_key": "create"}, logs={"kms_key": "create"})
    assert {made.kind for made in recorder.resources if made.options["protect"]} == protected
    emptied = allow == ["purge"]
    assert recorder.one("s3.Bucket").inputs["forceDestroy"] is emptied
    assert [made.inputs["forceDelete"] for made in recorder.of("ecr.Repository")] == [emptied, emptied]


def test_the_descriptor_is_written_into_the_store():
    recorder = run_stack("demo-aws")
    written = recorder.one("s3.BucketObjectv2")
    assert written.inputs["key"] == "pipeline.json"
    assert written.inputs["contentType"] == "application/json"
    descriptor = Descriptor.model_validate_json(written.inputs["content"])
    assert (descriptor.team, descriptor.environment, descriptor.account) == ("demo", "local", "123456789012")
    assert descriptor.uri == "s3://demo-local-store-bucket-1a2b3c4/pipeline.json"
    assert descriptor.log_group == "demo-local-logs-group-1a2b3c4"
    cpu = descriptor.queues["cpu"]
    assert [machine.type for machine in cpu.machines] == ["c6i.large", "c6i.xlarge", "m6i.large", "m6i.xlarge"]
    assert [(machine.cpus, machine.memory_mib) for machine in cpu.machines[:2]] == [(2, 4096), (4, 8192)]
    assert cpu.images["default"].job_definition == "arn:mock:JobDefinition:demo-local-cpu-default:1"
    assert cpu.aws is not None
    assert cpu.aws.job_queue == "arn:mock:JobQueue:demo-local-cpu-queue"
    assert [(rung.market, rung.max_cpus) for rung in cpu.capacity] == [("spot", 8)]
    assert "max_price_percent" not in written.inputs["content"]
    assert descriptor.writable == []


def test_the_descriptor_says_what_jobs_may_write():
    recorder = run_stack("vision-dev")
    written = Descriptor.model_validate_json(recorder.one("s3.BucketObjectv2").inputs["content"])
    assert written.writable
    # The meaning of a grant is written twice: here, and in the role's policy.
    granted = "".join(str(policy.inputs["policy"]) for policy in recorder.of("iam.RolePolicy"))
    for prefix in written.writable:
        assert f":s3:::{prefix.removeprefix('s3://')}" in granted
        assert written.may_hold_outputs(prefix)


def test_what_a_stack_exports(monkeypatch: pytest.MonkeyPatch):
    exported: dict[str, Any] = {}
    monkeypatch.setattr(pulumi, "export", exported.__setitem__)
    run_program(settings("demo-aws"))
    with_role = set(exported)
    exported.clear()
    run_program(settings("vision-dev"))
    assert set(exported) == {
        "execution_role_arn",
        "instance_role_arn",
        "job_queue_arns",
        "job_role_arn",
        "log_group",
        "pipeline_uri",
        "registry_url",
        "repository_arns",
        "security_group_id",
        "store_arn",
        "store_bucket",
        "submitter_policy_arn",
        "submitter_policy_arns",
        "subnet_ids",
        "vpc_id",
    }
    assert with_role - set(exported) == {"submitter_role_arn"}


def test_a_pipeline_with_everything_has_each_output_of_the_page_on_its_cloud():
    found: dict[str, set[str]] = {}
    refused: list[str] = []
    queue = {"images": {"default": f"registry://preprocess@sha256:{64 * '0'}"}}
    common = {
        "team": "vision",
        "environment": "dev",
        "queues": {"cpu": queue},
        "store": {"kms_key": "create"},
        "monitoring": {"dashboard": True, "notify": ["ml-oncall@example.com"]},
    }
    keys = {
        "aws": {"file_systems": {"shared": {}}, "access": {"submitters": [f"arn:aws:iam::{ACCOUNT}:role/people"]}},
        "gcp": {
            "file_systems": {"shared": {"tier": "regional"}},
            "access": {"submitters": ["group:people@example.com"]},
        },
    }

    def program(cloud: str) -> None:
        pipeline = Pipeline("vision-dev", PipelineArgs(config={**common, "cloud": cloud, **keys[cloud]}))
        found[cloud] = set(pipeline.exports) - {"pipeline_uri", "submitter_policy_arn"}
        for name in outputs() - found[cloud]:
            with pytest.raises(NoOutputError) as caught:
                _ = getattr(pipeline, name)
            refused.append(str(caught.value))
            assert not hasattr(pipeline, name)

    for cloud in keys:
        run(partial(program, cloud))
    assert found["aws"] | found["gcp"] == outputs()
    for name, about in reference.outputs().items():
        clouds = {cloud for cloud in found if name in found[cloud]}
        assert {*re.findall("^(AWS|GCP): ", about)} == (
            {cloud.upper() for cloud in clouds} if len(clouds) < 2 else set()
        )
    assert {text.partition(": ")[2] for text in refused} == {
        "a pipeline on this cloud has no such output. docs/stack-outputs.md has the outputs of each cloud."
    }


def outputs() -> set[str]:
    return {*reference.outputs()}


def test_a_preview_makes_the_same_resources(stack):
    name, recorder = stack
    assert run_stack(name, preview=True).counts() == recorder.counts()


@pytest.mark.parametrize(
    ("region", "told"),
    [("us-west-2", "Idle cost: "), ("mx-central-1", "Cost: unknown. The price table has no prices for mx-central-1;")],
)
def test_a_preview_speaks_of_money_once(monkeypatch: pytest.MonkeyPatch, region: str, told: str):
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", lambda text, *_, **__: said.append(text))
    run_program(settings("demo-aws") | {"aws:region": region})
    (note,) = [text for text in said if "ost: " in text]
    assert note.startswith(told)


def test_a_wrong_config_is_one_line_and_makes_nothing():
    recorder = Recorder()
    values = settings("demo-aws") | {"tidemill:queus": {}}
    with pytest.raises(pulumi.RunError) as caught:
        run_program(values, recorder=recorder)
    assert str(caught.value).startswith("tidemill:queus is not a known key.")
    assert "\n" not in str(caught.value)
    assert recorder.resources == []


def test_a_secret_value_of_a_key_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pulumi.runtime.config, "is_config_secret", lambda key: key == "tidemill:queues")
    with pytest.raises(pulumi.RunError, match=r"^tidemill:queues: a secret value \(not shown\)"):
        run_program(settings("demo-aws"))


def test_a_text_where_a_mapping_belongs():
    with pytest.raises(pulumi.RunError, match=r'^tidemill:queues: "cpu"'):
        run_program(settings("demo-aws") | {"tidemill:queues": "cpu"})


# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html and the services' API references
LONGEST = {
    "batch.ComputeEnvironment": 128,
    "batch.JobDefinition": 128,
    "batch.JobQueue": 128,
    "batch.SchedulingPolicy": 128,
    "ec2.LaunchTemplate": 128,
    "iam.InstanceProfile": 128,
    "iam.Policy": 128,
    "iam.Role": 64,
    "iam.RolePolicy": 128,
    "kinesis.FirehoseDeliveryStream": 64,
    "s3.Bucket": 63,
}
AUTO_NAMING = len("-1a2b3c4")


def test_the_longest_names_that_the_config_takes_fit_awss_limits():
    queue = {
        "images": {"default": "registry://a:1", "i" * 32: "registry://a:2"},
        "secrets": {"A": "arn:aws:ssm:us-west-2:123456789012:parameter/p"},
    }
    changes = {"team": "t" * 20, "environment": "e" * 15, "queues": {"q" * 32: queue}, "logs": {"archive": "bucket"}}
    recorder = run_stack("vision-prod", **changes)
    for kind, longest in LONGEST.items():
        names = [made.name for made in recorder.of(kind)]
        assert names, kind
        assert max(map(len, names)) + AUTO_NAMING <= longest, max(names, key=len)


def test_the_program_is_short():
    assert len((ROOT / "__main__.py").read_text().splitlines()) < 40


@pytest.mark.parametrize("worker", [None, f"123456789012.dkr.ecr.us-west-2.amazonaws.com/worker@sha256:{64 * 'a'}"])
def test_a_preview_without_a_worker_image_says_the_command(worker, monkeypatch):
    said = []
    monkeypatch.setattr("pulumi.log.warn", lambda text, *_, **__: said.append(text))
    run_program(settings("demo-aws") | ({"tidemill:worker_image": worker} if worker else {}), preview=True)
    assert ["make worker PUSH=REGISTRY" in text for text in said] == ([] if worker else [True])


def test_the_worker_may_lie_in_the_stacks_own_registry():
    made = run_stack("demo-aws", worker_image="registry://tidemill-worker@sha256:" + 64 * "a")
    assert "demo-local/tidemill-worker" in [each.inputs["name"] for each in made.of("ecr.Repository")]
