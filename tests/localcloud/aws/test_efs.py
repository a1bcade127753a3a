"""Who may mount an EFS file system, and where. Not proved: that EFS decides the same."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from localcloud.aws import authorize, efs
from localcloud.aws.accounts import ACCOUNT, service_client
from localcloud.aws.batch.core import BatchError
from localcloud.aws.batch.elastic import ElasticVolumes, UnmountableError
from localcloud.aws.batch.jobs import Task
from tests.localcloud.aws.batch.account import REGION, role

ZONE = f"{REGION}b"


@pytest.fixture(scope="module")
def made() -> Any:
    """A file system with a mount target in one zone, and a role that its policy lets in through an access point."""
    ec2, client = service_client("ec2", REGION), service_client("efs", REGION)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.0/24", AvailabilityZone=ZONE)["Subnet"]["SubnetId"]
    system = client.create_file_system(CreationToken="a", Encrypted=True)
    client.create_mount_target(FileSystemId=system["FileSystemId"], SubnetId=subnet)
    point = client.create_access_point(
        ClientToken="a", FileSystemId=system["FileSystemId"], RootDirectory={"Path": "/jobs"}
    )
    job = role("ecs-tasks.amazonaws.com")
    admitted = {
        "Effect": "Allow",
        "Principal": {"AWS": job},
        "Action": ["elasticfilesystem:ClientMount"],
        "Resource": system["FileSystemArn"],
        "Condition": {"StringEquals": {"elasticfilesystem:AccessPointArn": point["AccessPointArn"]}},
    }
    plain = {
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "*",
        "Resource": "*",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [admitted, plain]})
    client.put_file_system_policy(FileSystemId=system["FileSystemId"], Policy=document)
    return SimpleNamespace(job=job, system=system["FileSystemId"], point=point["AccessPointId"])


def volumes(state: Path, job: str, zone: str = ZONE) -> ElasticVolumes:
    core: Any = SimpleNamespace(
        settings=SimpleNamespace(state_dir=state), host=SimpleNamespace(authorize=authorize.may)
    )
    machine: Any = SimpleNamespace(zone=zone)
    return ElasticVolumes(core, machine, REGION, job)


def volume(made: Any, **changes: Any) -> dict[str, Any]:
    wanted = {"accessPointId": made.point, "iam": "ENABLED"}
    return {"fileSystemId": made.system, "transitEncryption": "ENABLED", "authorizationConfig": wanted, **changes}


def test_the_role_of_the_policy_mounts_the_access_points_folder_and_may_not_write(made: Any, tmp_path: Path) -> None:
    found = volumes(tmp_path, made.job)
    assert found.folder(volume(made)) == tmp_path / "efs" / made.system / "jobs"
    assert not found.may_write(volume(made))


def test_whoever_else_is_refused(made: Any, tmp_path: Path) -> None:
    other = role("ecs-tasks.amazonaws.com")
    for who, wanted in (
        (other, volume(made)),
        (made.job, volume(made, authorizationConfig={"iam": "ENABLED"})),
        (made.job, volume(made, authorizationConfig={"accessPointId": made.point})),
        (made.job, volume(made, transitEncryption="DISABLED")),
    ):
        with pytest.raises(UnmountableError, match="access denied"):
            volumes(tmp_path, who).folder(wanted)


def test_a_zone_without_a_mount_target_mounts_nothing(made: Any, tmp_path: Path) -> None:
    with pytest.raises(UnmountableError, match=f"no mount target in {REGION}a"):
        volumes(tmp_path, made.job, f"{REGION}a").folder(volume(made))


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"transitEncryption": "DISABLED"}, "transitEncryption"),
        ({"rootDirectory": "/a"}, "rootDirectory"),
        ({}, "jobRoleArn"),
    ],
)
def test_batch_refuses_what_ecs_could_not_mount(made: Any, wanted: dict[str, str], says: str) -> None:
    needs = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "128"}]
    container: dict[str, Any] = {"image": "a", "resourceRequirements": needs}
    container["volumes"] = [{"name": "a", "efsVolumeConfiguration": volume(made, **wanted)}]
    with pytest.raises(BatchError, match=says):
        Task.of({"containerProperties": container})


def test_tags_and_policies_are_found_by_arn(made: Any) -> None:
    arn = f"arn:aws:elasticfilesystem:{REGION}:{ACCOUNT}:file-system/{made.system}"
    service_client("efs", REGION).tag_resource(ResourceId=made.system, Tags=[{"Key": "a", "Value": "b"}])
    assert efs.tags(arn, REGION) == {"a": "b"}
    assert json.loads(efs.policy(arn) or "")["Statement"]
