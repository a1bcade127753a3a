"""Roles and their rights. Recording mocks prove what is requested; tests/e2e shows what is denied."""

import json
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest

from components.aws.identity import AwsIdentity, AwsIdentityArgs
from components.config import ConfigError, parse
from components.pipeline import Pipeline, PipelineArgs
from tests.components.recording import REGION, Recorder, run, run_with
from tests.components.stacks import run_stack

ACCOUNT = "123456789012"
STORE = "arn:mock:Bucket:demo-local-store-bucket"


def test_three_roles_and_a_profile():
    made = run(lambda: AwsIdentity("i", AwsIdentityArgs()))
    assert made.counts() == {"AwsIdentity": 1, "iam.InstanceProfile": 1, "iam.Role": 3, "iam.RolePolicy": 1}


def test_who_may_be_what():
    made = run(lambda: AwsIdentity("i", AwsIdentityArgs()))
    trusts = {role.name: role.document("assumeRolePolicy")["Statement"] for role in made.of("iam.Role")}
    own = {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
    task = {
        "Effect": "Allow",
        "Principal": {"Service": "ecs-tasks.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": own,
    }
    machine = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    assert trusts == {"i-instance": [machine], "i-execution": [task], "i-job": [task]}


def test_a_machine_is_an_ecs_agent_and_nothing_else():
    made = run_stack("demo-aws")
    on_machines = [p for p in made.of("iam.RolePolicy") if p.inputs["role"].startswith("demo-local-identity-instance")]
    (agent,) = on_machines
    statements = agent.document("policy")["Statement"]
    actions = [action for statement in statements for action in statement["Action"]]
    assert all(action.startswith("ecs:") for action in actions)
    assert "ecs:UpdateContainerInstancesState" in actions
    assert "ecs:CreateCluster" not in actions
    assert statements[0] == {"Effect": "Allow", "Action": ["ecs:DiscoverPollEndpoint"], "Resource": ["*"]}
    own = [
        f"arn:aws:ecs:us-west-2:{ACCOUNT}:{kind}/{cluster}-*"
        for kind in ("cluster", "container-instance")
        for cluster in ("AWSBatch-demo-local", "demo-local")
    ]
    assert [statement["Resource"] for statement in statements[1:]] == [own, own]


def test_the_boundary_bounds_every_role():
    boundary = f"arn:aws:iam::{ACCOUNT}:policy/boundary"
    made = run_stack("vision-prod", permission_boundary=boundary)
    assert {role.inputs["permissionsBoundary"] for role in made.of("iam.Role")} == {boundary}
    assert "permissionsBoundary" not in run_stack("demo-aws").of("iam.Role")[0].inputs


@pytest.mark.parametrize("submitters", [[], [f"arn:aws:iam::{ACCOUNT}:role/people"]])
def test_with_a_boundary_the_submitter_role_alone_has_the_permissions(submitters: list[str]):
    """A policy that people attach to their own roles would be outside of the boundary, and CI could rewrite it."""
    access = {"submitters": submitters, "advise": True}
    free = run_stack("vision-prod", access=access)
    made = run_stack("vision-prod", access=access, permission_boundary=f"arn:aws:iam::{ACCOUNT}:policy/boundary")
    assert made.of("iam.Policy") == made.of("iam.RolePolicyAttachment") == []
    granted = [p.document("policy") for p in made.of("iam.RolePolicy") if "-submitter-" in p.inputs["role"]]
    policies = sorted(free.of("iam.Policy"), key=lambda policy: policy.name)
    offered = [s for p in policies for s in p.document("policy")["Statement"]]
    assert [document["Statement"] for document in granted] == ([offered] if submitters else [])


def test_a_job_may_use_the_stores_jobs_and_results_and_nothing_else():
    made = run_stack("demo-aws", data={})
    on_jobs = [p for p in made.of("iam.RolePolicy") if p.inputs["role"].startswith("demo-local-identity-job")]
    (work,) = on_jobs
    assert work.document("policy")["Statement"] == [
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:AbortMultipartUpload", "s3:PutObject"],
            "Resource": [f"{STORE}/jobs/*", f"{STORE}/out/*", f"{STORE}/state/*"],
        },
        {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [f"{STORE}/uploads/*"]},
        {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [STORE]},
    ]


def test_declared_data_is_granted_by_prefix():
    made = run_stack("vision-dev", data={"read": ["s3://raw"], "write": ["s3://features/a/"], "kms_keys": []})
    assert made.document_of("vision-dev-identity-data-vision-dev-identity-job") == [
        {
            "Effect": "Allow",
            "Action": ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"],
            "Resource": ["arn:aws:s3:::features/a/*"],
        },
        {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::raw/*"]},
        {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": ["arn:aws:s3:::raw"]},
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket"],
            "Resource": ["arn:aws:s3:::features"],
            "Condition": {"StringLike": {"s3:prefix": ["a/*"]}},
        },
    ]


def test_keys_of_declared_data():
    key = f"arn:aws:kms:us-west-2:{ACCOUNT}:key/1"
    made = run_stack("vision-dev", data={"read": ["s3://raw"], "kms_keys": [key]})
    last = made.document_of("vision-dev-identity-data-vision-dev-identity-job")[-1]
    assert last["Resource"] == [key]
    assert "kms:Decrypt" in last["Action"]


def test_secrets_are_the_execution_roles_and_never_the_jobs():
    made = run_stack("vision-prod")
    secret = f"arn:aws:secretsmanager:us-west-2:{ACCOUNT}:secret:vision/hf-token-AbCdEf"
    assert made.document_of("vision-prod-identity-secrets-vision-prod-identity-execution") == [
        {"Effect": "Allow", "Action": ["secretsmanager:GetSecretValue"], "Resource": [secret, f"{secret}-??????"]}
    ]
    holders = [p.inputs["role"] for p in made.of("iam.RolePolicy") if "GetSecretValue" in p.inputs["policy"]]
    assert holders == ["vision-prod-identity-execution-1a2b3c4"]


def test_a_secrets_json_key_is_no_part_of_its_arn():
    secret = f"arn:aws:secretsmanager:us-west-2:{ACCOUNT}:secret:s-AbCdEf"
    parameter = f"arn:aws:ssm:us-west-2:{ACCOUNT}:parameter/p"

    def program() -> None:
        identity = AwsIdentity("i", AwsIdentityArgs())
        identity.grant_secrets(identity.execution_role, [f"{secret}:key::", parameter])

    secrets, parameters = run(program).document_of("i-secrets-i-execution")
    assert secrets["Resource"] == [secret, f"{secret}-??????"]
    assert parameters == {"Effect": "Allow", "Action": ["ssm:GetParameters"], "Resource": [parameter]}


def test_an_image_of_another_ecr_registry_is_pulled_with_a_grant_for_that_repository():
    image = "999999999999.dkr.ecr.eu-west-1.amazonaws.com/base/tools@sha256:" + 64 * "a"
    made = run_stack("demo-aws", queues={"cpu": {"images": {"default": image}}})
    statements = made.document_of("demo-local-identity-external-pull-demo-local-identity-execution")
    assert statements[1]["Resource"] == ["arn:aws:ecr:eu-west-1:999999999999:repository/base/tools"]


def test_what_a_submitter_may_do():
    made = run_stack("demo-aws")
    group = "arn:mock:LogGroup:demo-local-logs-group"
    jobs = [f"arn:aws:batch:us-west-2:{ACCOUNT}:job/*"]
    asked = {"aws:RequestTag/tidemill:team": "demo"}
    team, environment = {"aws:ResourceTag/tidemill:team": "demo"}, {"aws:ResourceTag/tidemill:environment": "local"}
    unclaimed = {"StringEquals": asked, "StringEqualsIfExists": {**team, **environment}}
    owned = {"StringEquals": team, "StringEqualsIfExists": environment}
    queue = ["arn:mock:JobQueue:demo-local-cpu-queue", "arn:mock:JobDefinition:demo-local-cpu-default:*"]
    assert made.document_of("demo-local-identity-submitter") == [
        _allow(["batch:SubmitJob", "batch:TagResource"], queue, {"StringEquals": asked}),
        _allow(["batch:TagResource"], jobs, unclaimed),
        _allow(["batch:CancelJob", "batch:TerminateJob"], jobs, owned),
        _allow(
            [
                "batch:DescribeComputeEnvironments",
                "batch:DescribeJobDefinitions",
                "batch:DescribeJobQueues",
                "batch:DescribeJobs",
                "batch:GetJobQueueSnapshot",
                "batch:ListJobs",
                "logs:GetQueryResults",
                "logs:StopQuery",
                "servicequotas:GetServiceQuota",
            ],
            ["*"],
        ),
        _allow(
            ["logs:DescribeLogStreams", "logs:FilterLogEvents", "logs:GetLogEvents", "logs:StartQuery"],
            [group, f"{group}:*"],
        ),
        _allow(["s3:GetObject"], [f"{STORE}/{key}" for key in ("pipeline.json", "out/*", "state/*")]),
        _allow(["s3:GetObject", "s3:AbortMultipartUpload", "s3:PutObject"], [f"{STORE}/jobs/*", f"{STORE}/uploads/*"]),
        _allow(["s3:ListBucket"], [STORE]),
    ]


def _allow(actions: list[str], resources: list[str], condition: dict | None = None) -> dict:
    statement = {"Effect": "Allow", "Action": actions, "Resource": resources}
    return {**statement, "Condition": condition} if condition else statement


def test_a_submitter_role_only_for_those_who_are_named():
    demo, dev = run_stack("demo-aws"), run_stack("vision-dev")
    (statement,) = demo.one("iam.Role", "demo-local-identity-submitter").document("assumeRolePolicy")["Statement"]
    assert statement == {
        "Effect": "Allow",
        "Principal": {"AWS": [f"arn:aws:iam::{ACCOUNT}:root"]},
        "Action": "sts:AssumeRole",
    }
    attached = demo.one("iam.RolePolicyAttachment").inputs
    assert attached["policyArn"] == "arn:mock:Policy:demo-local-identity-submitter"
    assert {role.name for role in dev.of("iam.Role")} == {
        f"vision-dev-identity-{role}" for role in ("instance", "execution", "job")
    }
    assert len(dev.of("iam.Policy")) == 1


def test_policies_are_within_iams_limits():
    """10,240 characters for the inline policies of a role, 6,144 for a managed policy, whitespace not counted.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
    """
    made = run_stack("vision-prod")
    inline: dict[str, int] = {}
    for policy in made.of("iam.RolePolicy"):
        inline[policy.inputs["role"]] = inline.get(policy.inputs["role"], 0) + len(policy.inputs["policy"])
    assert max(inline.values()) < 10_240
    assert all(len(policy.inputs["policy"]) < 6_144 for policy in made.of("iam.Policy"))


class _LongNames(Recorder):
    """Answers ARNs of the maximum length in the partition `aws`."""

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        found, outputs = super().new_resource(args)
        start = f"arn:aws:batch:ap-southeast-2:{ACCOUNT}"
        outputs["arn"] = f"{start}:job-queue/{args.name}-1a2b3c4"
        outputs["arnPrefix"] = f"{start}:job-definition/{args.name}-1a2b3c4"
        return found, outputs


LONG_IMAGE = f"docker.io/team/preprocess@sha256:{64 * '0'}"


def _longest(queues: int, images: int) -> dict[str, Any]:
    """A config with so many queues and images of each, all with the longest names."""
    names = ["default", *(f"{number:032}".replace("0", "i") for number in range(11, 10 + images))]
    return {
        "team": 20 * "t",
        "environment": 14 * "e",
        "store": {"kms_key": "create"},
        "logs": {"kms_key": "create"},
        "queues": {
            f"q{number:031}".replace("0", "q"): {"images": dict.fromkeys(names, LONG_IMAGE)}
            for number in range(11, 11 + queues)
        },
        "access": {"submitters": [f"arn:aws:iam::{ACCOUNT}:root"], "advise": True},
    }


@pytest.mark.parametrize(("queues", "images", "policies"), [(12, 1, 1), (1, 20, 1), (6, 20, 6), (50, 1, 5)])
def test_submitters_policies_are_within_iams_limits_with_the_longest_names(queues, images, policies):
    config = _longest(queues, images)
    recorder = run_with(_LongNames(), lambda: Pipeline(f"{20 * 't'}-{14 * 'e'}", PipelineArgs(config=config)))
    compact = {
        p.name: json.dumps(json.loads(p.inputs["policy"]), separators=(",", ":")) for p in recorder.of("iam.Policy")
    }
    assert max(map(len, compact.values())) <= 6_144
    made = [policy for name, policy in compact.items() if not name.endswith("-advise")]
    assert (len(compact), len(made)) == (policies + 1, policies)
    named = [arn for policy in made for arn in json.loads(policy)["Statement"][0]["Resource"]]
    assert len(set(named)) == len(named) == queues * (1 + images)
    attached = {made.inputs["policyArn"] for made in recorder.of("iam.RolePolicyAttachment")}
    assert len(attached) == policies + 1


@pytest.mark.parametrize(("queues", "images"), [(20, 1), (2, 19), (8, 4)])
def test_a_bounded_submitter_role_is_within_iams_limit_with_the_longest_names(queues: int, images: int):
    config = {**_longest(queues, images), "permission_boundary": f"arn:aws:iam::{ACCOUNT}:policy/boundary"}
    recorder = run_with(_LongNames(), lambda: Pipeline(f"{20 * 't'}-{14 * 'e'}", PipelineArgs(config=config)))
    (held,) = [p for p in recorder.of("iam.RolePolicy") if "-submitter-" in p.inputs["role"]]
    assert 8_500 < len(json.dumps(held.document("policy"), separators=(",", ":"))) < 10_240
    one_more = {**config, "queues": {**config["queues"], "another": {"images": {"default": LONG_IMAGE}}}}
    with pytest.raises(ConfigError, match="or less with a permission_boundary"):
        parse(one_more)


def test_advice_is_a_policy_of_its_own():
    """The submitter policy stays what it is, so that nothing changes for those who have attached it."""
    without = run_stack("demo-aws")
    made = run_stack("demo-aws", access={"submitters": [f"arn:aws:iam::{ACCOUNT}:root"], "advise": True})
    names = ["demo-local-identity-submitter", "demo-local-identity-submitter-advise"]
    assert sorted(policy.name for policy in made.of("iam.Policy")) == names
    first, advise = (made.one("iam.Policy", name) for name in names)
    assert first.inputs["policy"] == without.one("iam.Policy").inputs["policy"]
    assert [
        (each["Action"], each["Resource"], each.get("Condition")) for each in advise.document("policy")["Statement"]
    ] == [
        (["ec2:GetSpotPlacementScores"], ["*"], {"StringEquals": {"aws:RequestedRegion": REGION}}),
        (
            ["ec2:DescribeAvailabilityZones", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeSpotPriceHistory"],
            ["*"],
            None,
        ),
    ]
    attached = {each.inputs["policyArn"] for each in made.of("iam.RolePolicyAttachment")}
    assert attached == {f"arn:mock:Policy:{name}" for name in names}


def _bucket(number: int) -> str:
    return f"s3://{number:063}"


def _many(count: int, kind: str) -> dict[str, Any]:
    """A config with many secrets, buckets of data, or mounted ones, with long names."""
    queue: dict[str, Any] = {"images": {"default": LONG_IMAGE}}
    config: dict[str, Any] = {"team": 20 * "t", "environment": 14 * "e", "queues": {"cpu": queue}}
    secret = f"arn:aws:secretsmanager:ap-southeast-2:{ACCOUNT}:secret:{60 * 's'}-"
    uris = [f"{_bucket(number // 3)}/{number:020}/" for number in range(count)]
    key = f"arn:aws:kms:ap-southeast-2:{ACCOUNT}:key/{36 * 'k'}"
    if kind == "secrets":
        config["queues"] = {
            f"q{start}": {
                **queue,
                "secrets": {f"S{n}": f"{secret}{n:06}" for n in range(start, min(start + 25, count))},
            }
            for start in range(0, count, 25)
        }
    else:
        config["data"] = {"read": [_bucket(n) for n in range(count)] if kind == "buckets" else uris, "kms_keys": [key]}
    return config


@pytest.mark.parametrize("kind", ["secrets", "buckets", "prefixes"])
def test_inline_policies_are_within_iams_limit_or_refused(kind):
    def refused(count: int) -> bool:
        said = ""
        try:
            parse(_many(count, kind))
        except ConfigError as error:
            said = str(error)
        return "what IAM takes for a role" in said

    most = next(count for count in range(5, 200) if refused(count + 1))
    config = _many(most, kind)
    name = f"{config['team']}-{config['environment']}"
    made = run_with(_LongNames(), lambda: Pipeline(name, PipelineArgs(config=config)))
    inline: dict[str, int] = {}
    for policy in made.of("iam.RolePolicy"):
        text = json.dumps(policy.document("policy"), separators=(",", ":"))
        inline[policy.inputs["role"]] = inline.get(policy.inputs["role"], 0) + len(text)
    # Not so early that much would be left over.
    assert 7_500 < max(inline.values()) <= 10_240, inline


def test_roles_can_be_granted_to_one_by_one():
    def program() -> None:
        identity = AwsIdentity("i", AwsIdentityArgs())
        identity.grant_data(identity.job_role, [], [], [])
        identity.grant_secrets(identity.execution_role, [])
        identity.grant_external_pull(identity.execution_role, [])
        aws.iam.Role("other", assume_role_policy="{}")

    assert run(program).counts()["iam.RolePolicy"] == 1


def test_personal_secrets_leave_one_way_in():
    ada = f"arn:aws:iam::{ACCOUNT}:user/ada"
    made = run_stack("vision-dev", access={"submitters": [ada], "personal_secrets": True})
    assert not made.of("iam.Policy"), "it could be attached to others"
    secret = made.one("secretsmanager.Secret", "vision-dev-identity-secrets")
    assert "secretString" not in secret.inputs
    (closed,) = secret.document("policy")["Statement"]
    assert (closed["Effect"], closed["Principal"]) == ("Deny", "*")
    roles = closed["Condition"]["ArnNotEquals"]["aws:PrincipalArn"]
    assert [role.partition("identity-")[2].partition("-")[0] for role in roles] == ["submitter", "job"]
    (trusted,) = made.one("iam.Role", "vision-dev-identity-submitter").document("assumeRolePolicy")["Statement"]
    assert trusted["Principal"] == {"AWS": [ada]}


def test_without_personal_secrets_a_stack_is_what_it_was():
    assert not run_stack("vision-dev").of("secretsmanager.Secret")
