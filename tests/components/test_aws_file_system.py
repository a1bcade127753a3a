"""A file system on AWS. Recording mocks prove what is requested, not that AWS accepts it."""

from __future__ import annotations

from typing import Any

import pytest

from components.aws.file_system import AwsFileSystem, AwsFileSystemArgs
from components.config import ConfigError
from tests.components.recording import Recorder, run
from tests.components.stacks import run_program, run_stack, settings
from tests.components.test_aws_batch_queue import container, queue

MOUNT = {"shared": {"file_system": "shared", "path": "/mnt/shared"}}


def made_with(**changes: Any) -> Recorder:
    args = {
        "vpc_id": "vpc-1",
        "subnet_ids": ["subnet-1", "subnet-2"],
        "zones": ["us-west-2a", "us-west-2b"],
        "client_group_id": "sg-machines",
        "client_role_arn": "arn:job",
    }
    return run(lambda: AwsFileSystem("f", AwsFileSystemArgs(**(args | changes))))


def stack(mounts: dict[str, Any] = MOUNT, **changes: Any) -> Recorder:
    """The demo stack with a file system that its queue mounts."""
    cpu = settings("demo-aws")["tidemill:queues"]["cpu"]
    return run_stack("demo-aws", file_systems={"shared": {}}, queues={"cpu": {**cpu, "mounts": mounts}}, **changes)


def test_what_a_file_system_is_made_of():
    assert made_with(settings={"backup": True}).counts() == {
        "AwsFileSystem": 1,
        "ec2.SecurityGroup": 1,
        "efs.AccessPoint": 1,
        "efs.BackupPolicy": 1,
        "efs.FileSystem": 1,
        "efs.FileSystemPolicy": 1,
        "efs.MountTarget": 2,
        "vpc.SecurityGroupIngressRule": 1,
    }


def test_it_is_encrypted_and_protected():
    files = made_with().one("efs.FileSystem")
    assert (files.inputs["encrypted"], files.inputs["throughputMode"]) == (True, "elastic")
    assert "lifecyclePolicies" not in files.inputs
    assert files.options["protect"]
    assert not made_with(purge=True).one("efs.FileSystem").options["protect"]


def test_old_files_become_cheaper_and_come_back_when_read():
    files = made_with(settings={"infrequent_after_days": 1}).one("efs.FileSystem")
    assert files.inputs["lifecyclePolicies"] == [
        {"transitionToIa": "AFTER_1_DAY"},
        {"transitionToPrimaryStorageClass": "AFTER_1_ACCESS"},
    ]


def test_only_the_machines_reach_it():
    made = made_with()
    rule = made.one("vpc.SecurityGroupIngressRule").inputs
    assert (rule["fromPort"], rule["toPort"], rule["ipProtocol"]) == (2049, 2049, "tcp")
    assert rule["referencedSecurityGroupId"] == "sg-machines"
    assert made.one("ec2.SecurityGroup").inputs.keys().isdisjoint({"ingress", "egress"})
    assert {target.inputs["securityGroups"][0] for target in made.of("efs.MountTarget")} == {"f-targets-id"}


@pytest.mark.parametrize(
    ("writable", "actions"),
    [
        (True, ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"]),
        (False, ["elasticfilesystem:ClientMount"]),
    ],
)
def test_only_the_jobs_mount_it_through_the_access_point_and_with_tls(writable: bool, actions: list[str]):
    jobs, tls = made_with(writable=writable).document_of("f-policy")
    assert (jobs["Effect"], jobs["Principal"], jobs["Action"]) == ("Allow", {"AWS": "arn:job"}, actions)
    assert jobs["Condition"]["StringEquals"] == {"elasticfilesystem:AccessPointArn": "arn:mock:AccessPoint:f-access"}
    assert (tls["Effect"], tls["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})


def test_a_zone_has_one_mount_target_however_many_subnets_it_has():
    made = made_with(subnet_ids=["subnet-1", "subnet-2", "subnet-3"], zones=["us-west-2b", "us-west-2a", "us-west-2b"])
    assert {target.name: target.inputs["subnetId"] for target in made.of("efs.MountTarget")} == {
        "f-target-us-west-2b": "subnet-1",
        "f-target-us-west-2a": "subnet-2",
    }


def test_a_queue_mounts_it_with_tls_as_the_jobs_role():
    (volume,) = (each for each in container(stack())["volumes"] if each["name"] == "mount-shared")
    assert volume["efsVolumeConfiguration"] == {
        "fileSystemId": "demo-local-fs-shared-files-id",
        "transitEncryption": "ENABLED",
        "authorizationConfig": {"accessPointId": "demo-local-fs-shared-access-id", "iam": "ENABLED"},
    }


def test_a_job_definition_waits_for_the_mount_targets():
    definition = stack().one("batch.JobDefinition")
    awaited = definition.options["property_dependencies"]["containerProperties"]
    assert sum("MountTarget" in urn for urn in awaited) == 3


def test_jobs_may_write_only_if_a_queue_mounts_it_for_that():
    reading = {"shared": {**MOUNT["shared"], "read_only": True}}
    for mounts, actions in ((MOUNT, 2), (reading, 1), ({}, 1)):
        assert len(stack(mounts).document_of("demo-local-fs-shared-policy")[0]["Action"]) == actions


def test_an_existing_network_gets_a_mount_target_per_zone_of_its_subnets():
    found = {"subnet-11111111": "us-west-2a", "subnet-22222222": "us-west-2c", "subnet-33333333": "us-west-2a"}
    network = {"existing": {"vpc_id": "vpc-12345678", "subnet_ids": [*found]}}
    values = settings("demo-aws") | {"tidemill:network": network, "tidemill:file_systems": {"shared": {}}}
    made = run_program(values, recorder=Recorder(subnets=found))
    assert {target.inputs["subnetId"] for target in made.of("efs.MountTarget")} == {
        "subnet-11111111",
        "subnet-22222222",
    }
    group = made.one("vpc.SecurityGroupIngressRule").inputs["referencedSecurityGroupId"]
    assert group == "demo-local-network-machines-id"


def test_a_queue_that_is_used_alone_needs_the_file_system():
    with pytest.raises(ConfigError) as refused:
        queue(mounts=MOUNT)
    assert refused.value.what == "tidemill:queues.cpu.mounts.shared.file_system"
