"""The provider's table and its checks, without a cloud. It cannot prove that AWS or pulumi-aws agree with the table."""

from __future__ import annotations

import importlib
import inspect
import json
import keyword
import re
from typing import Any

import pytest

from localcloud.aws.provider import invokes
from localcloud.aws.provider.clients import Clients
from localcloud.aws.provider.table import AWS, operation_model
from localcloud.provider import plan
from localcloud.provider.convert import UNKNOWN, RefusedError, covers, from_api, to_api
from localcloud.provider.resources import ProviderResource
from localcloud.provider.table import Row, UnknownTypeError, fill

CE = "aws:batch/computeEnvironment:ComputeEnvironment"
QUEUE = "aws:batch/jobQueue:JobQueue"
DEFINITION = "aws:batch/jobDefinition:JobDefinition"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
FIREHOSE = "aws:kinesis/firehoseDeliveryStream:FirehoseDeliveryStream"
RULE = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
RESOURCES = {
    "type": "SPOT",
    "allocationStrategy": "SPOT_PRICE_CAPACITY_OPTIMIZED",
    "minVcpus": 0,
    "maxVcpus": 16,
    "instanceTypes": ["c6i.large", "m6i.large"],
    "subnets": ["subnet-1"],
    "securityGroupIds": ["sg-1"],
    "instanceRole": "arn:aws:iam::123456789012:instance-profile/x",
    "launchTemplate": {"launchTemplateId": "lt-1", "version": "1"},
    "ec2Configurations": [{"imageType": "ECS_AL2023"}],
}


def environment(role: str | None = None, **changes: Any) -> dict[str, Any]:
    """A compute environment's inputs with some of its compute resources changed; None leaves one out."""
    given = {key: value for key, value in (RESOURCES | changes).items() if value is not None}
    return {"type": "MANAGED", "computeResources": given, **({"serviceRole": role} if role else {})}


def checked(token: str, **inputs: Any) -> dict[str, Any]:
    """Checked inputs of a new resource called `main`."""
    return plan.check(AWS.row(token), "main", {}, inputs, b"seed")


def sdk_class(token: str) -> type:
    """The class of pulumi_aws that a token belongs to."""
    module, name = token.split(":")[1].split("/", maxsplit=1)[0], token.split(":")[2]
    module = f"{module}_" if keyword.iskeyword(module) else module
    return getattr(importlib.import_module(f"pulumi_aws.{module}"), name)


def camel(name: str) -> str:
    """A Python name of the SDK as the engine's property."""
    head, *rest = name.rstrip("_").split("_")
    return head + "".join(part.capitalize() for part in rest)


def test_only_named_properties_that_localcloud_lacks_are_left_out():
    row = AWS.row("aws:ec2/securityGroup:SecurityGroup")
    inputs = {"vpcId": "vpc-1", "ingress": [{"fromPort": 22}]}
    assert "ingress" not in plan.checked(row, "main", {}, inputs, b"", ["ingress"])
    assert plan.checked(row, "main", {}, {"vpcId": "vpc-1"}, b"", ["vpcId"])["vpcId"] == "vpc-1", "it is known"
    with pytest.raises(RefusedError, match="ingress"):
        plan.checked(row, "main", {}, inputs, b"", ["egress"])


def test_a_part_of_a_property_is_left_out_wherever_it_is():
    disk = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": 30, "unheardOf": 1}}
    inputs = {"blockDeviceMappings": [disk], "metadataOptions": {"httpTokens": "required", "unheardOf": 1}}
    found = plan.checked(
        AWS.row(TEMPLATE), "main", {}, inputs, b"", ["blockDeviceMappings", "metadataOptions.unheardOf"]
    )
    assert found["blockDeviceMappings"] == [{**disk, "ebs": {"volumeSize": 30}}]
    assert found["metadataOptions"] == {"httpTokens": "required"}


@pytest.mark.parametrize("token", sorted(AWS.rows))
def test_row_fits_the_service_model(token: str) -> None:
    this = AWS.row(token)
    extra = [step["each"] for step in this.delete + this.update if "each" in step]
    for step in [*this.steps(), *this.read, *this.delete, *this.tags, *extra]:
        model = operation_model(step.get("service", this.service), step["op"])
        fill(step.get("params", {}), model.input_shape, {}, this.names)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("token", sorted(AWS.rows))
def test_row_speaks_of_properties_that_the_sdk_has(token: str) -> None:
    this, made = AWS.row(token), sdk_class(token)
    parameters = inspect.signature(made._internal_init).parameters  # type: ignore[attr-defined]
    given = {camel(name) for name in parameters} | {"region"}  # iam has no region; every row takes one
    assert set(this.properties) - {"tagsAll"} <= given
    outputs = {camel(name) for name, member in inspect.getmembers(made) if isinstance(member, property)}
    assert set(this.out) - {"associationId"} <= outputs | given
    assert this.source.startswith("TF/")
    roots = {rule.split(".")[0].rstrip("#") for rule in this.replace}
    assert roots <= set(this.properties)
    assert set(this.recomputed) <= set(this.out) | set(this.seed)
    assert set(this.computed) | set(this.required) | set(this.defaults) <= set(this.properties)


@pytest.mark.parametrize("token", sorted(AWS.rows))
def test_no_property_of_a_row_is_deaf_to_a_change(token: str) -> None:
    this = AWS.row(token)
    resource = ProviderResource(AWS.row(token), Clients("us-west-2"))
    heard = {name for step in this.update + this.set for name in resource._roots(step)}
    heard |= {rule.split(".")[0] for rule in this.replace} | set(this.own) | {"tags", "tagsAll", "region"}
    fixed = {name for name, rule in this.allowed.items() if isinstance(rule, list) and len(rule) == 1}
    assert set(this.properties) - heard - fixed == set()


@pytest.mark.parametrize(
    ("token", "inputs", "path", "text"),
    [
        (QUEUE, {"priorty": 1}, "priorty", "did you mean 'priority'"),
        (CE, environment(maxCpus=3), "computeResources.maxCpus", "did you mean 'maxvCpus'"),
        (CE, environment(allocationStrategy="SPOT_BEST"), "computeResources.allocationStrategy", "SPOT_PRICE_CAPACITY"),
        (CE, environment(maxVcpus="many"), "computeResources.maxVcpus", "expected integer"),
        (CE, environment(maxVcpus=None), "computeResources", "'maxvCpus' is required"),
        (CE, environment() | {"name": "has space"}, "name", "does not match"),
        (CE, environment() | {"updatePolicy": {"jobExecutionTimeoutMinutes": 720}}, "updatePolicy.job", "1 and 360"),
        (QUEUE, {"state": "ENABLED"}, "priority", "is required"),
        (QUEUE, {"state": "on", "priority": 1}, "state", "ENABLED, DISABLED"),
        (
            QUEUE,
            {
                "state": "ENABLED",
                "priority": 1,
                "jobStateTimeLimitActions": [
                    {"action": "CANCEL", "maxTimeSeconds": 60, "reason": "x", "state": "RUNNABLE"}
                ],
            },
            "jobStateTimeLimitActions[0].maxTimeSeconds",
            "600 and 86400",
        ),
        (
            DEFINITION,
            {"type": "container", "containerProperties": '{"ulimit": []}'},
            "containerProperties.ulimit",
            "ulimits",
        ),
        (DEFINITION, {"type": "container", "timeout": {"attemptDurationSeconds": 5}}, "timeout", "below 60"),
        ("aws:iam/role:Role", {"assumeRolePolicy": "{}", "name": "a b"}, "name", "does not match"),
        ("aws:iam/role:Role", {"assumeRolePolicy": "{}", "name": "n" * 65}, "name", "is not within 1 and 64"),
        ("aws:ecr/repository:Repository", {"name": "Upper"}, "name", "does not match"),
        ("aws:s3/bucket:Bucket", {"bucket": "Under_score"}, "bucket", "does not match"),
        ("aws:s3/bucket:Bucket", {"acl": "public-read"}, "acl", "no such property"),
        (
            "aws:ec2/vpc:Vpc",
            {"cidrBlock": "10.0.0.0/16", "instanceTenancy": "shared"},
            "instanceTenancy",
            "not one of default",
        ),
        ("aws:ec2/securityGroup:SecurityGroup", {"name": "sg-mine"}, "name", "does not match"),
        ("aws:cloudwatch/logGroup:LogGroup", {"retentionInDays": 10}, "retentionInDays", "10 is not one of 0, 1, 3"),
        (TEMPLATE, {"metadataOptions": {"httpTokens": "must"}}, "metadataOptions.httpTokens", "optional, required"),
        (TEMPLATE, {"blockDeviceMappings": [{"ebs": {"size": 3}}]}, "blockDeviceMappings[0].ebs.size", "volumeSize"),
        (FIREHOSE, {"destination": "splunk", "extendedS3Configuration": {}}, "destination", "extended_s3"),
        (
            FIREHOSE,
            {"destination": "extended_s3", "extendedS3Configuration": {"bucket": "x"}},
            "extendedS3Configuration.bucket",
            "did you mean 'bucketArn'",
        ),
    ],
)
def test_refused(token: str, inputs: dict[str, Any], path: str, text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        checked(token, **inputs)
    assert refused.value.path.startswith(path)
    assert text in refused.value.reason


def test_unknown_type_and_function_name_the_nearest() -> None:
    with pytest.raises(
        UnknownTypeError, match=r"aws:batch/jobQueues:JobQueue.*did you mean 'aws:batch/jobQueue:JobQueue'"
    ):
        AWS.row("aws:batch/jobQueues:JobQueue")
    with pytest.raises(UnknownTypeError, match=r"did you mean 'aws:index/getRegion:getRegion'"):
        invokes.invoke("aws:index/getRegions:getRegions", {}, Clients("us-west-2"))
    token = "aws:index/getAvailabilityZones:getAvailabilityZones"
    with pytest.raises(RefusedError, match="did you mean 'excludeNames'"):
        invokes.invoke(token, {"excludedNames": []}, Clients("us-west-2"))


def test_a_value_that_a_preview_does_not_know_passes() -> None:
    inputs = environment(subnets=UNKNOWN, launchTemplate={"launchTemplateId": UNKNOWN, "version": UNKNOWN})
    assert checked(CE, **inputs)["computeResources"]["subnets"] == UNKNOWN


@pytest.mark.parametrize(
    ("token", "key", "pattern"),
    [
        (QUEUE, "name", r"main-[0-9a-f]{7}"),
        ("aws:s3/bucket:Bucket", "bucket", r"main-[0-9a-f]{7}"),
        ("aws:kms/alias:Alias", "name", r"alias/main-[0-9a-f]{7}"),
        ("aws:iam/role:Role", "name", r"main-[0-9a-f]{7}"),
    ],
)
def test_automatic_name(token: str, key: str, pattern: str) -> None:
    given = {"priority": 1, "state": "ENABLED", "assumeRolePolicy": "{}", "targetKeyId": "k"}
    known = {name: value for name, value in given.items() if name in AWS.row(token).properties}
    first = checked(token, **known)[key]
    assert re.fullmatch(pattern, first)
    again = plan.check(AWS.row(token), "main", {key: first}, known, b"another seed")
    assert again[key] == first, "a resource keeps the name that it was given"


@pytest.mark.parametrize(
    ("token", "key", "most"),
    [
        ("aws:iam/role:Role", "name", 64),
        ("aws:cloudwatch/eventRule:EventRule", "name", 64),
        ("aws:sns/topic:Topic", "name", 80),
        ("aws:ec2/launchTemplate:LaunchTemplate", "name", 125),
        (QUEUE, "name", 128),
        ("aws:kms/alias:Alias", "name", 238),
    ],
)
def test_an_automatic_name_is_refused_where_it_is_too_long_and_never_cut(token: str, key: str, most: int) -> None:
    given = {"priority": 1, "state": "ENABLED", "assumeRolePolicy": "{}", "targetKeyId": "k"}
    known = {name: value for name, value in given.items() if name in AWS.row(token).properties}
    fits = plan.check(AWS.row(token), "n" * (most - 8), {}, known, b"s")[key]
    assert len(fits.removeprefix("alias/")) == most
    with pytest.raises(RefusedError, match=f"7 random characters has {most + 1}; .* at most {most}"):
        plan.check(AWS.row(token), "n" * (most - 7), {}, known, b"s")


OWN_ROLE = "arn:aws:iam::123456789012:role/batch"
LINKED = "arn:aws:iam::123456789012:role/aws-service-role/batch.amazonaws.com/AWSServiceRoleForBatch"


@pytest.mark.parametrize(
    ("old", "new", "path", "replaces"),
    [
        # always: compute_environment.go, ForceNew in the schema
        (environment(), environment() | {"type": "UNMANAGED"}, "type", True),
        (environment(), environment() | {"name": "b"}, "name", True),
        (environment(placementGroup="a"), environment(placementGroup="b"), "computeResources.placementGroup", True),
        (environment(launchTemplate=None), environment(), "computeResources.launchTemplate", True),
        # never, with the service-linked role and a strategy that can be updated
        (environment(), environment(maxVcpus=32), "computeResources.maxVcpus", False),
        (environment(), environment(instanceTypes=["c7i.large"]), "computeResources.instanceTypes", False),
        (
            environment(),
            environment(launchTemplate={"launchTemplateId": "lt-1", "version": "2"}),
            "computeResources.launchTemplate.version",
            False,
        ),
        (
            environment(),
            environment(launchTemplate={"launchTemplateId": "lt-1", "version": UNKNOWN}),
            "computeResources.launchTemplate.version",
            False,
        ),
        (environment(), environment(subnets=["subnet-2"]), "computeResources.subnets", False),
        (environment(LINKED), environment(LINKED, imageId="ami-1"), "computeResources.imageId", False),
        # always then: resourceComputeEnvironmentCustomizeDiff
        (
            environment(OWN_ROLE),
            environment(OWN_ROLE, instanceTypes=["c7i.large"]),
            "computeResources.instanceTypes",
            True,
        ),
        (environment(OWN_ROLE), environment(OWN_ROLE, tags={"a": "b"}), "computeResources.tags", True),
        (environment(OWN_ROLE), environment(OWN_ROLE, maxVcpus=32), "computeResources.maxVcpus", False),
        (
            environment(allocationStrategy="BEST_FIT"),
            environment(allocationStrategy="BEST_FIT", subnets=["subnet-2"]),
            "computeResources.subnets",
            True,
        ),
        (
            environment(),
            environment(allocationStrategy="SPOT_CAPACITY_OPTIMIZED_PRIORITIZED"),
            "computeResources.allocationStrategy",
            True,
        ),
        (
            environment(),
            environment(allocationStrategy="SPOT_CAPACITY_OPTIMIZED"),
            "computeResources.allocationStrategy",
            False,
        ),
        (
            environment(allocationStrategy="BEST_FIT", type="FARGATE_SPOT"),
            environment(allocationStrategy="BEST_FIT", type="FARGATE_SPOT", subnets=["subnet-2"]),
            "computeResources.subnets",
            False,
        ),
    ],
)
def test_compute_environment_replacement(old: dict[str, Any], new: dict[str, Any], path: str, replaces: bool) -> None:
    changes = plan.diff(AWS.row(CE), old, new)
    nearest = next(found for found in changes if found.startswith(path))
    assert changes[nearest][1] is replaces


@pytest.mark.parametrize(
    ("token", "old", "new", "replaced"),
    [
        (QUEUE, {"name": "a", "priority": 1}, {"name": "a", "priority": 2}, set()),
        (QUEUE, {"name": "a"}, {"name": "b"}, {"name"}),
        (QUEUE, {"schedulingPolicyArn": "a"}, {"schedulingPolicyArn": "b"}, set()),
        (DEFINITION, {"containerProperties": '{"a": 1}'}, {"containerProperties": '{"a": 2}'}, set()),
        (DEFINITION, {"name": "a"}, {"name": "b"}, {"name"}),
        ("aws:s3/bucket:Bucket", {"bucket": "a"}, {"bucket": "b"}, {"bucket"}),
        ("aws:s3/bucket:Bucket", {"forceDestroy": False}, {"forceDestroy": True}, set()),
        ("aws:iam/policy:Policy", {"description": "a"}, {"description": "b"}, {"description"}),
        ("aws:ecr/lifecyclePolicy:LifecyclePolicy", {"policy": '{"rules": [1]}'}, {"policy": "{}"}, {"policy"}),
        ("aws:ec2/vpc:Vpc", {"cidrBlock": "10.0.0.0/16"}, {"cidrBlock": "10.1.0.0/16"}, {"cidrBlock"}),
        (TEMPLATE, {"userData": "YQ=="}, {"userData": "Yg=="}, set()),
        (RULE, {"cidrIpv4": "10.0.0.0/8"}, {"cidrIpv4": "10.0.0.0/16"}, set()),
        (RULE, {"cidrIpv4": "10.0.0.0/8"}, {"prefixListId": "pl-1"}, {"cidrIpv4", "prefixListId"}),
    ],
)
def test_replacement(token: str, old: dict[str, Any], new: dict[str, Any], replaced: set[str]) -> None:
    changes = plan.diff(AWS.row(token), old, new)
    assert changes
    assert {path for path, (_, replaces) in changes.items() if replaces} == replaced


def test_no_difference_in_order_of_sets_form_of_json_or_number_as_text() -> None:
    shuffled = environment(instanceTypes=["m6i.large", "c6i.large"], maxVcpus="16")
    assert plan.diff(AWS.row(CE), environment(), shuffled) == {}
    old = {"containerProperties": json.dumps({"a": [1], "b": 2})}
    assert plan.diff(AWS.row(DEFINITION), old, {"containerProperties": '{"b":2,\n "a":[1]}'}) == {}
    assert plan.diff(AWS.row(QUEUE), {"tags": {}}, {}) == {}
    assert plan.diff(AWS.row(CE), environment(), environment(maxVcpus=32), ["computeResources"]) == {}


def test_a_changed_template_makes_its_version_unknown_but_changed_tags_do_not() -> None:
    this = ProviderResource(AWS.row(TEMPLATE), Clients("us-west-2"))
    state = {"userData": "YQ==", "latestVersion": 3, "defaultVersion": 3, "arn": "arn:x"}
    changed = this.preview_update({"userData": "YQ=="}, state, {"userData": "Yg=="})
    assert (changed["latestVersion"], changed["arn"]) == (UNKNOWN, "arn:x")
    tagged = this.preview_update({"tags": {}}, state, {"tags": {"a": "b"}, "tagsAll": {"a": "b"}})
    assert tagged["latestVersion"] == 3
    definition = ProviderResource(AWS.row(DEFINITION), Clients("us-west-2"))
    revised = definition.preview_update({"timeout": {}}, {"arn": "a:1"}, {"timeout": {"attemptDurationSeconds": 60}})
    assert revised["arn"] == UNKNOWN


def test_default_tags_lose_to_a_resources_own() -> None:
    assert plan.merged_tags({"team": "b"}, {"team": "a", "env": "dev"}) == {"team": "b", "env": "dev"}
    assert plan.merged_tags({"team": UNKNOWN}, {"env": "dev"}) == UNKNOWN


def test_values_to_botocore_and_back() -> None:
    shape = operation_model("batch", "create_compute_environment").input_shape.members["computeResources"]
    names = AWS.row(CE).names
    aws = to_api(RESOURCES, shape, "computeResources", names)
    assert aws["maxvCpus"] == 16
    assert aws["ec2Configuration"] == [{"imageType": "ECS_AL2023"}]
    assert from_api(aws, {value: key for key, value in names.items()}) == RESOURCES


@pytest.mark.parametrize(
    ("wanted", "found", "answer"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ('{"a": 1}', {"a": 1}, True),
        (["a", "b"], ["b", "a"], False),
        ("", None, True),
        ("x", None, False),
        ("1", 1, True),
    ],
)
def test_covers(wanted: Any, found: Any, answer: bool) -> None:
    assert covers(wanted, found) is answer
    assert covers(["a", "b"], ["b", "a"], is_set=True)


def test_every_row_is_a_row() -> None:
    assert len(AWS.rows) == 65
    assert all(isinstance(this, Row) for this in AWS.rows.values())
