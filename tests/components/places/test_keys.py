"""Keys of registries and file systems. Recording mocks prove what is requested, not what a cloud encrypts."""

from __future__ import annotations

from typing import Any

import pytest

from localcloud.aws.iam import ROLE, Query, refusal
from tests.components.recording import Recorder
from tests.components.stacks import IMAGE, run_stack

AWS_KEY = "arn:aws:kms:us-west-2:123456789012:key/0a"
GCP_KEY = "projects/p/locations/us-central1/keyRings/r/cryptoKeys/k"


def stack(name: str, key: str | None) -> Recorder:
    files: dict[str, Any] = {} if "gcp" not in name else {"tier": "zonal", "zone": "a"}
    keyed = {"kms_key": key} if key else {}
    return run_stack(name, registry=keyed, file_systems={"shared": files | keyed})


def test_without_a_key_nothing_is_said_of_encryption():
    made = stack("vision-dev", None)
    assert not made.of("kms.Key")
    assert all("encryptionConfigurations" not in each.inputs for each in made.of("ecr.Repository"))
    assert "kmsKeyId" not in made.one("efs.FileSystem").inputs
    made = stack("vision-gcp-dev", None)
    assert not made.of("kms.CryptoKey")
    assert "kmsKeyName" not in made.one("artifactregistry.Repository", "vision-dev-registry-images").inputs


@pytest.mark.parametrize("key", ["create", AWS_KEY])
def test_a_registry_and_a_file_system_on_aws_have_their_keys(key: str):
    made = stack("vision-dev", key)
    arns = {each.name: f"arn:mock:Key:{each.name}" for each in made.of("kms.Key")}
    assert [*arns] == (["vision-dev-registry-key", "vision-dev-fs-shared-key"] if key == "create" else [])
    for repository in made.of("ecr.Repository"):
        (wanted,) = repository.inputs["encryptionConfigurations"]
        assert wanted == {"encryptionType": "KMS", "kmsKey": arns.get("vision-dev-registry-key", key)}
        assert repository.options["protect"]
    assert made.one("efs.FileSystem").inputs["kmsKeyId"] == arns.get("vision-dev-fs-shared-key", key)


def test_a_new_key_admits_the_account_and_no_other():
    for each in stack("vision-dev", "create").of("kms.Key"):
        (decides,) = each.document("policy")["Statement"]
        assert decides["Principal"] == {"AWS": "arn:aws:iam::123456789012:root"}
        assert each.options["protect"]


@pytest.mark.parametrize("key", ["create", GCP_KEY])
def test_a_registry_and_a_file_system_on_gcp_have_their_keys(key: str):
    made = stack("vision-gcp-dev", key)
    registry, files = (
        made.one("artifactregistry.Repository", "vision-dev-registry-images"),
        made.one("filestore.Instance"),
    )
    names = [each.inputs["kmsKeyName"] for each in (registry, files)]
    if key != "create":
        assert names == [key, key]
        assert not made.of("kms.CryptoKeyIAMMember")
        return
    assert names == ["vision-dev-registry-key-id", "vision-dev-fs-shared-key-id"]
    admitted = {each.inputs["cryptoKeyId"]: each.inputs["member"] for each in made.of("kms.CryptoKeyIAMMember")}
    agent = "serviceAccount:service-987654321098@{}.iam.gserviceaccount.com"
    assert admitted == dict(zip(names, map(agent.format, ("gcp-sa-artifactregistry", "cloud-filer")), strict=True))


OURS = "123456789012"
LAUNCHING = "arn:aws:iam::123456789012:role/aws-service-role/autoscaling.amazonaws.com/*"


@pytest.mark.parametrize("key", ["create", AWS_KEY])
def test_volumes_of_machines_on_aws_have_their_key(key: str):
    made = run_stack("vision-dev", disks={"kms_key": key})
    keys = made.of("kms.Key")
    assert [each.name for each in keys] == (["vision-dev-disks-key"] if key == "create" else [])
    wanted = "arn:mock:Key:vision-dev-disks-key" if keys else key
    for template in made.of("ec2.LaunchTemplate"):
        (volume,) = template.inputs["blockDeviceMappings"]
        assert (volume["ebs"]["kmsKeyId"], volume["ebs"]["encrypted"]) == (wanted, "true")
    plain = run_stack("vision-dev").of("ec2.LaunchTemplate")
    assert all("kmsKeyId" not in each.inputs["blockDeviceMappings"][0]["ebs"] for each in plain)


def test_a_key_of_volumes_admits_the_roles_that_start_machines_and_nobody_else_of_the_account():
    (key,) = run_stack("vision-dev", disks={"kms_key": "create"}).of("kms.Key")
    owner, use, attach = key.document("policy")["Statement"]
    assert owner["Principal"] == {"AWS": "arn:aws:iam::123456789012:root"}
    for statement in (use, attach):
        assert statement["Condition"]["StringEquals"] == {"kms:CallerAccount": "123456789012"}
        roles = statement["Condition"]["ArnLike"]["aws:PrincipalArn"]
        assert LAUNCHING in roles
        assert all(role.startswith("arn:aws:iam::123456789012:role/aws-service-role/") for role in roles)
    assert attach["Action"] == "kms:CreateGrant"
    assert attach["Condition"]["Bool"] == {"kms:GrantIsForAWSResource": "true"}
    assert not [action for action in use["Action"] if "*" in action or "Grant" in action]


@pytest.mark.parametrize(
    ("account", "role", "action", "may"),
    [
        (OURS, "aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling", "GenerateDataKey", True),
        (OURS, "aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot", "CreateGrant", True),
        (OURS, "aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling", "PutKeyPolicy", False),
        (OURS, "aws-service-role/backup.amazonaws.com/AWSServiceRoleForBackup", "Decrypt", False),
        (OURS, "vision-dev-identity-jobs-1a2b3c4", "Decrypt", False),
        ("999999999999", "aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot", "Decrypt", False),
    ],
)
def test_who_may_use_the_key_of_volumes(account: str, role: str, action: str, may: bool):
    """By localcloud's evaluator of policies."""
    (key,) = run_stack("vision-dev", disks={"kms_key": "create"}).of("kms.Key")
    caller = f"arn:aws:iam::{account}:role/{role}"
    known = {
        "aws:principalarn": caller,
        "kms:calleraccount": account,
        "kms:grantisforawsresource": "true",
    }
    query = Query(f"kms:{action}", "arn:aws:kms:us-west-2:123456789012:key/1", {f"AWS:{caller}": ROLE}, known)
    assert (refusal(query, [], key.document("policy"), resource_decides=True) is None) == may


@pytest.mark.parametrize("key", ["create", GCP_KEY])
def test_disks_and_messages_on_gcp_have_their_keys(key: str):
    families = {"families": ["n2", "c4"], "cpus": 16}
    queue = {"images": {"default": IMAGE}, "machines": families, "gcp": {"extra_disk_gib": 100}}
    made = run_stack("vision-gcp-dev", disks={"kms_key": key}, topics={"kms_key": key}, queues={"cpu": queue})
    created = key == "create"
    disk, topic = (f"vision-dev-{what}-key-id" if created else key for what in ("disks", "topics"))
    disks = [each for one in made.of("compute.RegionInstanceTemplate") for each in one.inputs["disks"]]
    for group in made.of("compute.RegionInstanceGroupManager"):
        for selection in group.inputs["instanceFlexibilityPolicy"]["instanceSelections"]:
            disks += selection.get("disks") or []
    assert len(disks) >= 4
    assert {each["diskEncryptionKey"]["kmsKeySelfLink"] for each in disks} == {disk}
    assert {each.inputs["kmsKeyName"] for each in made.of("pubsub.Topic") if "reconciler" not in each.name} == {topic}
    admitted = {each.inputs["cryptoKeyId"]: each.inputs["member"] for each in made.of("kms.CryptoKeyIAMMember")}
    agent = "serviceAccount:service-987654321098@{}.iam.gserviceaccount.com"
    agents = {disk: agent.format("compute-system"), topic: agent.format("gcp-sa-pubsub")}
    assert admitted == (agents if created else {})


def test_an_imported_repository_keeps_its_encryption():
    made = run_stack("vision-dev", registry={"kms_key": "create"}, imports={"repositories": {"preprocess": "old"}})
    (imported,) = [each for each in made.of("ecr.Repository") if each.options["import"]]
    assert "encryptionConfigurations" not in imported.inputs
