"""Everything that a stack makes has your company's tags, or is of a type that has none.

A new resource cannot be forgotten: the SDKs say which types take tags. What this cannot prove is that Batch and
Compute Engine tag the machines, volumes and interfaces that they make (docs/first-account.md).
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import runpy
from functools import partial
from keyword import iskeyword
from typing import Any

import pulumi
import pytest

from policy.rules import POLICIES
from policy.rules.aws_any_resource_tags import TYPES as TYPES_ON_AWS
from policy.rules.gcp_any_resource_labels import TYPES as TYPES_ON_GCP
from tests.components.recording import Made, Recorder, run_with
from tests.components.stacks import ROOT, run_program
from tests.policy.judging import judge, resources_of
from tests.tags.stacks import OURS, PLACES, TAGS, largest, run, settings

SHARED = partial(runpy.run_path, str(ROOT / "shared" / "__main__.py"), run_name="__main__")

WITHOUT = {
    # They are parts of a resource that has tags.
    "aws:cloudwatch/eventTarget:EventTarget": "a part of its rule",
    "aws:cloudwatch/logIndexPolicy:LogIndexPolicy": "a part of its log group",
    "aws:cloudwatch/logMetricFilter:LogMetricFilter": "a part of its log group",
    "aws:cloudwatch/logSubscriptionFilter:LogSubscriptionFilter": "a part of its log group",
    "aws:ec2/route:Route": "a part of its table",
    "aws:ec2/routeTableAssociation:RouteTableAssociation": "a part of its table",
    "aws:ecr/lifecyclePolicy:LifecyclePolicy": "a part of its repository",
    "aws:ecr/repositoryPolicy:RepositoryPolicy": "a part of its repository",
    "aws:efs/backupPolicy:BackupPolicy": "a part of its file system",
    "aws:efs/fileSystemPolicy:FileSystemPolicy": "a part of its file system",
    "aws:efs/mountTarget:MountTarget": "a part of its file system; its network interface is not billed",
    "aws:iam/rolePolicy:RolePolicy": "a part of its role",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": "a part of its role",
    "aws:kms/alias:Alias": "a name of its key",
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": "a part of its bucket",
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": "a part of its bucket",
    "aws:s3/bucketPolicy:BucketPolicy": "a part of its bucket",
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": "a part of its bucket",
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": "a part of its bucket",
    "aws:s3/bucketVersioning:BucketVersioning": "a part of its bucket",
    "aws:scheduler/schedule:Schedule": "a part of its group",
    "aws:sns/topicPolicy:TopicPolicy": "a part of its topic",
    "aws:sns/topicSubscription:TopicSubscription": "a part of its topic",
    "aws:sqs/queuePolicy:QueuePolicy": "a part of its queue",
    # AWS has no tags for them.
    "aws:cloudwatch/dashboard:Dashboard": "AWS has none; $3 per month beyond the first three of an account",
    "aws:cloudwatch/queryDefinition:QueryDefinition": "AWS has none; it is not billed",
    # GCP has no labels for them.
    "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember": "a grant",
    "gcp:bigquery/datasetIamMember:DatasetIamMember": "a grant",
    "gcp:cloudrunv2/serviceIamMember:ServiceIamMember": "a grant",
    "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember": "a grant",
    "gcp:projects/iAMCustomRole:IAMCustomRole": "a grant's role",
    "gcp:projects/iAMMember:IAMMember": "a grant",
    "gcp:pubsub/subscriptionIAMMember:SubscriptionIAMMember": "a grant",
    "gcp:pubsub/topicIAMMember:TopicIAMMember": "a grant",
    "gcp:storage/bucketIAMMember:BucketIAMMember": "a grant",
    "gcp:billing/budget:Budget": "GCP has none; it is not billed",
    "gcp:cloudscheduler/job:Job": "GCP has none; $0.10 per month beyond the first three of an account",
    "gcp:compute/firewall:Firewall": "GCP has none; its network tags admit traffic",
    "gcp:compute/network:Network": "GCP has none; it is not billed",
    "gcp:compute/regionAutoscaler:RegionAutoscaler": "GCP has none; it is not billed",
    "gcp:compute/regionInstanceGroupManager:RegionInstanceGroupManager": "GCP has none; its template labels machines",
    "gcp:compute/router:Router": "GCP has none; it is not billed",
    "gcp:compute/routerNat:RouterNat": "GCP has none, nor for the addresses that Cloud NAT allocates; billed",
    "gcp:compute/subnetwork:Subnetwork": "GCP has none; it is not billed",
    "gcp:kms/keyRing:KeyRing": "GCP has none; its keys have labels",
    "gcp:logging/metric:Metric": "GCP has none for the metric itself",
    "gcp:logging/projectBucketConfig:ProjectBucketConfig": "GCP has none; billed by the project's log volume",
    "gcp:logging/projectExclusion:ProjectExclusion": "GCP has none; it is not billed",
    "gcp:logging/projectSink:ProjectSink": "GCP has none; it is not billed",
    "gcp:logging/savedQuery:SavedQuery": "GCP has none; it is not billed",
    "gcp:monitoring/dashboard:Dashboard": "its labels are inside its JSON; it is not billed",
    "gcp:serviceaccount/account:Account": "GCP has none; it is not billed",
    "gcp:storage/bucketObject:BucketObject": "GCP has none; its bucket has labels",
}
"""Types that take no tags, each with the reason."""


def property_of(kind: str) -> str | None:
    """The property of a type that holds its tags, as the SDK has it."""
    package, module, name = re.fullmatch(r"(\w+):(\w+)/\w+:(\w+)", kind).groups()  # type: ignore[union-attr]
    # A word of Python's has an underscore more.
    sdk: Any = importlib.import_module(f"pulumi_{package}.{module}{'_' * iskeyword(module)}")
    takes = inspect.signature(getattr(sdk, name)._internal_init).parameters
    names = {"aws": ["tags"], "gcp": ["user_labels", "labels"]}[package]
    found = next((each for each in names if each in takes), None)
    return {"user_labels": "userLabels"}.get(found or "", found)


def lacking(each: Made, wanted: set[str]) -> set[str]:
    held = property_of(each.type)
    return set() if held is None else wanted - set(each.inputs.get(held) or {})


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_what_takes_tags_has_them(cloud: str) -> None:
    wanted = {*TAGS[cloud], *OURS[cloud]}
    assert {f"{each.type} {each.name}": lost for each in largest(cloud) if (lost := lacking(each, wanted))} == {}


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_what_takes_none_is_listed_with_its_reason(cloud: str) -> None:
    made = {each.type for each in largest(cloud)}
    assert {kind for kind in made if property_of(kind) is None} == {kind for kind in WITHOUT if kind[:3] == cloud}


def test_a_forgotten_resource_is_noticed() -> None:
    bucket = next(each for each in largest("aws") if each.kind == "s3.Bucket")
    assert lacking(Made(bucket.type, "", {"tags": {"CostCenter": "1"}}, "", {}), {"CostCenter", "Owner"}) == {"Owner"}
    assert lacking(Made(bucket.type, "", {}, "", {}), {"Owner"}) == {"Owner"}


def test_machines_volumes_and_interfaces_of_aws_have_them() -> None:
    templates = [each for each in largest("aws") if each.kind == "ec2.LaunchTemplate"]
    for template in templates:
        tagged = {each["resourceType"]: each["tags"] for each in template.inputs["tagSpecifications"]}
        assert set(tagged) == {"instance", "volume", "network-interface"}
        assert all(TAGS["aws"].items() <= tags.items() for tags in tagged.values())
        # It would keep On-Demand machines from starting.
        assert "spot-instances-request" not in tagged
    assert templates


def test_disks_of_gcp_have_them_for_every_type_of_machine() -> None:
    for template in [each for each in largest("gcp") if each.kind == "compute.RegionInstanceTemplate"]:
        assert all(TAGS["gcp"].items() <= disk["labels"].items() for disk in template.inputs["disks"])
        # Network tags are for firewall rules.
        assert "tags" not in template.inputs
    queue = {"images": {"default": "registry://a:1"}, "machines": {"families": ["n2", "n4"], "cpus": 8}}
    groups = run("gcp", tags=TAGS["gcp"], queues={"cpu": queue}, file_systems={}).of(
        "compute.RegionInstanceGroupManager"
    )
    choices = [each for group in groups for each in group.inputs["instanceFlexibilityPolicy"]["instanceSelections"]]
    disks = [disk for each in choices for disk in each.get("disks") or []]
    assert disks
    assert all({"key": "cost-center", "value": "4711"} in disk["labels"] for disk in disks)


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_an_environments_tags_reach_its_stacks_and_a_stacks_own_win(cloud: str) -> None:
    key = next(iter(TAGS[cloud]))
    of = {"env": {cloud: {key: "1", "owner": "platform"}}, "other": {cloud: {"never": "1"}}}
    bucket = run(cloud, environment_tags=of, tags={key: "2"}).of("storage.Bucket" if cloud == "gcp" else "s3.Bucket")[0]
    tags = bucket.inputs["labels" if cloud == "gcp" else "tags"]
    assert {name: value for name, value in tags.items() if name not in OURS[cloud]} == {key: "2", "owner": "platform"}


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_a_stack_without_the_key_is_as_before(cloud: str) -> None:
    for each in run(cloud).resources:
        if each.type.startswith(f"{cloud}:") and (held := property_of(each.type)):
            assert set(each.inputs.get(held) or {}) <= {*OURS[cloud], "Name"}, each.name
        if each.kind == "ec2.LaunchTemplate":
            kinds = [tagged["resourceType"] for tagged in each.inputs["tagSpecifications"]]
            assert kinds == ["instance", "volume"], "another kind would give running stacks new machines"


def test_a_budget_counts_by_the_stacks_own_tags() -> None:
    (budget,) = {each.urn: each for each in largest("aws") if each.kind == "budgets.Budget"}.values()
    found = {each["tags"]["key"] for each in budget.inputs["filterExpression"]["ands"]}
    assert found == OURS["aws"], "others may not be activated, or differ between resources"


def test_an_object_has_at_most_ten_tags() -> None:
    many = {f"key{number}": "a" for number in range(9)}
    objects = run("aws", tags=many).of("s3.BucketObjectv2")
    assert {frozenset(each.inputs["tags"]) for each in objects} == {frozenset(OURS["aws"])}
    few = run("aws", tags=dict(list(many.items())[:8])).of("s3.BucketObjectv2")
    assert {len(each.inputs["tags"]) for each in few} == {10}


@pytest.mark.parametrize(("cloud", "types"), [("aws", TYPES_ON_AWS), ("gcp", TYPES_ON_GCP)])
def test_the_policies_ask_for_tags_of_all_that_takes_them(cloud: str, types: tuple[str, ...]) -> None:
    # An object has room for ten.
    taking = {each.type for each in largest(cloud) if property_of(each.type)} - {"aws:s3/bucketObjectv2:BucketObjectv2"}
    assert taking <= set(types)


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_a_shared_stack_has_them_too(cloud: str) -> None:
    config = {**PLACES[cloud], "tidemill-shared:cloud": cloud, "tidemill-shared:tags": json.dumps(TAGS[cloud])}
    made = run_with(Recorder(), SHARED, config=config).resources
    wanted = {*TAGS[cloud], "tidemill:shared" if cloud == "aws" else "tidemill-shared"}
    assert {each.name: lost for each in made if each.type[:3] == cloud and (lost := lacking(each, wanted))} == {}


def test_a_shared_stacks_wrong_tag_is_named() -> None:
    config = {**PLACES["aws"], "tidemill-shared:tags": json.dumps({"aws:x": "a"})}
    with pytest.raises(pulumi.RunError, match=r'^tidemill-shared:tags\."aws:x": "aws:x" is not allowed'):
        run_with(Recorder(), SHARED, config=config)


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
@pytest.mark.parametrize("preview", [False, True], ids=["known", "preview"])
def test_a_stack_obeys_policies_that_require_them(cloud: str, preview: bool) -> None:
    rule = {"aws": "aws-any-resource-tags", "gcp": "gcp-any-resource-labels"}[cloud]
    pack: dict[str, Any] = {policy.name: "disabled" for policy in POLICIES}
    pack[rule] = {"enforcementLevel": "mandatory", "required": [*OURS[cloud], *TAGS[cloud]]}
    values = settings(cloud)
    without = judge(resources_of(run_program(values, preview=preview)), values, pack)
    kinds = {one.urn.split("::")[2].rpartition("$")[2] for one in without}
    made = {each.type for each in largest(cloud)}
    assert kinds >= {each for each in made if each.endswith(("LaunchTemplate", "InstanceTemplate", ":Bucket"))}
    assert all(f"tidemill:tags.{next(iter(TAGS[cloud]))} in the stack file" in one.message for one in without)
    values = settings(cloud, tags=TAGS[cloud])
    assert judge(resources_of(run_program(values, preview=preview)), values, pack) == []
