"""A queue and its machines. Recording mocks prove what is requested, not that AWS accepts it."""

import ast
import asyncio
import base64
import json
import shlex
import sys
from collections.abc import Collection
from email import message_from_bytes
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from components.config import ConfigError, Mount
from components.services.batch import compute_environment
from components.services.batch.batch_queue import AwsBatchQueue, AwsBatchQueueArgs
from components.services.batch.compute_environment import pause_seconds, wait_for_relation
from components.services.batch.user_data import script, user_data
from tests.components.recording import Recorder, run_with
from tests.components.stacks import IMAGE
from tests.fields import about

RELATION = (
    "deleting Batch Compute Environment (x): ClientException: Cannot delete, found existing JobQueue relationship"
)


VOLUMES = [
    {"name": "scratch", "host": {"sourcePath": "/var/lib/tidemill/scratch"}},
    {"name": "cache", "host": {"sourcePath": "/var/lib/tidemill/cache"}},
    {"name": "tidemill", "host": {"sourcePath": "/var/lib/tidemill/worker"}},
]
MOUNT_POINTS = [
    {"sourceVolume": "scratch", "containerPath": "/scratch", "readOnly": False},
    {"sourceVolume": "cache", "containerPath": "/cache", "readOnly": False},
    {"sourceVolume": "tidemill", "containerPath": "/tidemill", "readOnly": True},
]
"""Of every definition."""

WORKER = "123456789012.dkr.ecr.us-west-2.amazonaws.com/shared/tidemill-worker@sha256:" + 64 * "a"


def queue(
    images: dict[str, str] | None = None,
    worker_image: str | None = None,
    *,
    reads_mounts: bool = True,
    unsold: Collection[str] = (),
    submitter: bool = False,
    **settings: Any,
) -> Recorder:
    images = images or {"default": IMAGE}

    def program() -> None:
        args = AwsBatchQueueArgs(
            queue="cpu",
            settings={"images": images, **settings},
            images=dict(images),
            subnet_ids=pulumi.Output.from_input(["subnet-1"]),
            security_group_ids=["sg-1"],
            instance_profile_arn="arn:profile",
            execution_role_arn="arn:execution",
            job_role_arn="arn:job",
            store_uri="s3://store",
            log_group="group",
            team="vision",
            worker_image=worker_image,
            reads_mounts=reads_mounts,
            tags={"tidemill:team": "vision"},
        )
        made = AwsBatchQueue("q", args)
        if submitter:
            made.grant_submit(aws.iam.Role("r", assume_role_policy="{}"))

    return run_with(Recorder(unsold={*unsold}), program)


def container(recorder: Recorder) -> dict[str, Any]:
    return recorder.one("batch.JobDefinition").document("containerProperties")


def test_what_a_queue_is_made_of():
    made = queue(images={"default": IMAGE, "other": IMAGE}, capacity=[{"market": "spot"}, {"market": "on_demand"}])
    assert made.counts() == {
        "AwsBatchQueue": 1,
        "batch.ComputeEnvironment": 2,
        "batch.JobDefinition": 2,
        "batch.JobQueue": 1,
        "batch.SchedulingPolicy": 1,
        "ec2.LaunchTemplate": 1,
    }


def test_a_market_that_jobs_may_choose_has_a_job_queue_over_its_rungs_and_no_machines_of_its_own():
    rungs = [{"market": "spot"}, {"market": "spot", "name": "more"}, {"market": "on_demand"}]
    markets = ["on_demand", "spot"]
    made = queue(capacity=rungs, per_job={"markets": markets}, submitter=True)
    assert made.counts()["batch.ComputeEnvironment"] == 3
    orders = {
        each.name: [order["computeEnvironment"].rpartition(":")[2] for order in each.inputs["computeEnvironmentOrders"]]
        for each in made.of("batch.JobQueue")
    }
    assert orders == {
        "q-queue": ["q-spot", "q-spot-more", "q-on-demand"],
        "q-market-spot": ["q-spot", "q-spot-more"],
        "q-market-on-demand": ["q-on-demand"],
    }
    # A submitter may use exactly these.
    assert made.document_of("q-submit-r")[0]["Resource"] == [
        "arn:mock:JobQueue:q-queue",
        "arn:mock:JobQueue:q-market-on-demand",
        "arn:mock:JobQueue:q-market-spot",
        "arn:mock:JobDefinition:q-default:*",
    ]


def test_a_spot_rung():
    made = queue(machines={"families": ["m6i", "c6i"], "cpus": {"min": 2, "max": 4}}, capacity=[{"max_cpus": 64}])
    rung = made.one("batch.ComputeEnvironment")
    assert rung.name == "q-spot"
    assert rung.inputs == {
        "type": "MANAGED",
        "state": "ENABLED",
        "computeResources": {
            "type": "SPOT",
            "allocationStrategy": "SPOT_PRICE_CAPACITY_OPTIMIZED",
            "minVcpus": 0,
            "maxVcpus": 64,
            "instanceTypes": ["c6i.large", "c6i.xlarge", "m6i.large", "m6i.xlarge"],
            "ec2Configurations": [{"imageType": "ECS_AL2023"}],
            "instanceRole": "arn:profile",
            "launchTemplate": {"launchTemplateId": "q-machines-id", "version": "3"},
            "securityGroupIds": ["sg-1"],
            "subnets": ["subnet-1"],
        },
        "updatePolicy": {"jobExecutionTimeoutMinutes": 360, "terminateJobsOnUpdate": False},
        "tags": {"tidemill:team": "vision"},
    }


def test_a_price_cap_is_the_spot_rungs():
    made = queue(capacity=[{"market": "spot", "max_price_percent": 60}, {"market": "on_demand"}])
    spot, demand = (made.one("batch.ComputeEnvironment", f"q-{label}") for label in ("spot", "on-demand"))
    assert spot.inputs["computeResources"]["bidPercentage"] == 60
    assert "bidPercentage" not in demand.inputs["computeResources"]


GROUP = "arn:aws:resource-groups:us-west-2:123456789012:group/gpus"


@pytest.mark.parametrize(
    ("reservation", "wanted"),
    [
        ("cr-0123456789abcdef0", {"capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"}}),
        (
            GROUP,
            {
                "capacityReservationPreference": "capacity-reservations-only",
                "capacityReservationTarget": {"capacityReservationResourceGroupArn": GROUP},
            },
        ),
    ],
)
def test_a_rung_in_a_reservation_has_a_template_of_its_own(reservation: str, wanted: dict[str, Any]):
    made = queue(capacity=[{"market": "on_demand", "reservation": reservation, "name": "held"}, {"market": "spot"}])
    shared, own = (made.one("ec2.LaunchTemplate", name).inputs for name in ("q-machines", "q-on-demand-held"))
    assert own.pop("capacityReservationSpecification") == wanted
    assert "capacityReservationSpecification" not in shared
    assert own["userData"] == shared["userData"]
    held, spot = (made.one("batch.ComputeEnvironment", f"q-{label}") for label in ("on-demand-held", "spot"))
    templates = [each.inputs["computeResources"]["launchTemplate"]["launchTemplateId"] for each in (held, spot)]
    assert templates == ["q-on-demand-held-id", "q-machines-id"]
    aliases = made.one("ec2.LaunchTemplate", "q-on-demand-held").options["aliases"]
    assert [name for _, name in aliases] == ["q-on-demand-held-machines"], "it was called so before"


def test_an_excluded_type_is_not_started():
    machines = {"families": ["c6i"], "cpus": {"min": 2, "max": 8}, "exclude": ["c6i.xlarge"]}
    rung = queue(machines=machines).one("batch.ComputeEnvironment")
    assert rung.inputs["computeResources"]["instanceTypes"] == ["c6i.large", "c6i.2xlarge"]


def test_rungs_are_tried_in_the_order_of_the_config():
    made = queue(capacity=[{"market": "on_demand", "max_cpus": 8}, {"market": "spot", "max_cpus": 64}])
    orders = made.one("batch.JobQueue").inputs["computeEnvironmentOrders"]
    assert orders == [
        {"order": 1, "computeEnvironment": "arn:mock:ComputeEnvironment:q-on-demand"},
        {"order": 2, "computeEnvironment": "arn:mock:ComputeEnvironment:q-spot"},
    ]
    on_demand = made.one("batch.ComputeEnvironment", "q-on-demand").inputs["computeResources"]
    assert (on_demand["type"], on_demand["allocationStrategy"]) == ("EC2", "BEST_FIT_PROGRESSIVE")


def test_a_rung_that_drains_is_left_as_it_is_and_is_no_longer_the_queues():
    old = {"market": "spot", "max_cpus": 64, "drain": True}
    made = queue(capacity=[{"market": "spot", "max_cpus": 64, "name": "green"}, old])
    orders = made.one("batch.JobQueue").inputs["computeEnvironmentOrders"]
    assert orders == [{"order": 1, "computeEnvironment": "arn:mock:ComputeEnvironment:q-spot-green"}]
    draining = made.one("batch.ComputeEnvironment", "q-spot")
    assert draining.inputs["state"] == "DISABLED"
    assert draining.options["ignore_changes"] == ["computeResources"]
    assert draining.options["protect"] is False
    following = made.one("batch.ComputeEnvironment", "q-spot-green")
    assert (following.inputs["state"], following.options["protect"]) == ("ENABLED", True)
    assert following.options["ignore_changes"] == []


def test_nothing_that_makes_an_edit_a_replacement():
    for rung in queue(capacity=[{"market": "spot"}, {"market": "on_demand"}]).of("batch.ComputeEnvironment"):
        assert not {"serviceRole", "name", "namePrefix"} & rung.inputs.keys()
        assert (
            not {"desiredVcpus", "spotIamFleetRole", "bidPercentage", "tags"} & rung.inputs["computeResources"].keys()
        )
        assert rung.inputs["computeResources"]["launchTemplate"]["version"].isdigit()


def test_families_in_another_order_are_no_change():
    either = [
        queue(machines={"families": order}).one("batch.ComputeEnvironment")
        for order in (["c6i", "m6i"], ["m6i", "c6i"])
    ]
    assert either[0].inputs == either[1].inputs


def test_every_queue_shares_fairly_from_the_first_day():
    made = queue()
    assert made.one("batch.SchedulingPolicy").inputs["fairSharePolicy"] == {"shareDecaySeconds": 3600}
    assert made.one("batch.JobQueue").inputs["schedulingPolicyArn"] == "arn:mock:SchedulingPolicy:q-shares"


def test_a_transient_misconfiguration_while_scaling_from_zero_kills_nothing():
    """Nextflow 7479: Batch reports it briefly; only half an hour of it cancels, and a lack of Spot never does."""
    actions = queue(stuck_after_minutes=30).one("batch.JobQueue").inputs["jobStateTimeLimitActions"]
    assert {action["reason"] for action in actions} == {
        "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
        "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
    }
    for action in actions:
        assert (action["state"], action["action"], action["maxTimeSeconds"]) == ("RUNNABLE", "CANCEL", 1800)


def test_a_machine():
    template = queue(scratch_gib=200).one("ec2.LaunchTemplate").inputs
    (device,) = template["blockDeviceMappings"]
    assert device == {
        "deviceName": "/dev/xvda",
        "ebs": {"volumeType": "gp3", "volumeSize": 250, "encrypted": "true", "deleteOnTermination": "true"},
    }
    assert template["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }
    for ignored in ("instanceType", "iamInstanceProfile", "instanceMarketOptions", "imageId", "keyName"):
        assert ignored not in template


def test_user_data_is_mime_with_the_agents_settings():
    message = message_from_bytes(base64.b64decode(user_data({})))
    assert message.is_multipart()
    parts = list(message.walk())
    assert [part.get_content_type() for part in parts] == ["multipart/mixed", "text/x-shellscript"]
    text = str(parts[1].get_payload())
    assert text == script({})
    assert text.startswith("#!/bin/bash\n")
    assert "ECS_ENABLE_SPOT_INSTANCE_DRAINING=true\n" in text
    assert "ECS_ENABLE_AWSLOGS_EXECUTIONROLE_OVERRIDE=true\n" in text
    assert "install -d -m 1777 /var/lib/tidemill/scratch\n" in text
    assert "install -d -m 1777 /var/lib/tidemill/cache\n" in text


def test_user_data_changes_with_mounts_alone():
    assert queue().one("ec2.LaunchTemplate").inputs["userData"] == user_data({})
    assert user_data({}) == user_data({"efs": Mount(efs="fs-12345678", path="/mnt/e")})


def test_a_bucket_is_mounted_through_mountpoint():
    text = script({"models": Mount(s3="s3://team-models/v1/", path="/mnt/models")})
    assert "dnf install -y mount-s3 || shutdown -h now\n" in text
    assert (
        "mount-s3 --read-only --allow-other --prefix v1/ team-models /var/lib/tidemill/s3/models || shutdown -h now\n"
        in text
    )
    assert text.index("ecs.config") < text.index("mount-s3")


def test_a_mounted_prefix_is_one_word_of_the_script():
    prefix = "a!b'c(d)=e"
    line = script({"models": Mount(s3=f"s3://team-models/{prefix}", path="/mnt/models")}).splitlines()[-1]
    assert shlex.split(line)[4:6] == [f"{prefix}/", "team-models"]


def test_mounts_of_a_definition():
    made = queue(
        mounts={
            "models": {"s3": "s3://team-models", "path": "/mnt/models"},
            "shared": {"efs": "fs-12345678", "path": "/mnt/shared"},
            "data": {"host": "/mnt/data", "path": "/data", "read_only": True},
        }
    )
    assert container(made)["volumes"] == [
        *VOLUMES,
        {"name": "mount-data", "host": {"sourcePath": "/mnt/data"}},
        {"name": "mount-models", "host": {"sourcePath": "/var/lib/tidemill/s3/models"}},
        {
            "name": "mount-shared",
            "efsVolumeConfiguration": {"fileSystemId": "fs-12345678", "transitEncryption": "ENABLED"},
        },
    ]
    assert container(made)["mountPoints"] == [
        *MOUNT_POINTS,
        {"sourceVolume": "mount-data", "containerPath": "/data", "readOnly": True},
        {"sourceVolume": "mount-models", "containerPath": "/mnt/models", "readOnly": True},
        {"sourceVolume": "mount-shared", "containerPath": "/mnt/shared", "readOnly": False},
    ]


def test_a_job_definition():
    made = queue().one("batch.JobDefinition")
    assert made.inputs["type"] == "container"
    assert made.inputs["platformCapabilities"] == ["EC2"]
    assert made.inputs["deregisterOnNewRevision"] is False
    assert made.inputs["propagateTags"] is True
    assert "ecsProperties" not in made.inputs
    assert "timeout" not in made.inputs
    assert made.document("containerProperties") == {
        "image": IMAGE,
        "command": ["python3", "-m", "tidemill.worker"],
        "executionRoleArn": "arn:execution",
        "jobRoleArn": "arn:job",
        "environment": [
            {"name": "TIDEMILL_STORE", "value": "s3://store"},
            {"name": "TIDEMILL_QUEUE", "value": "cpu"},
            {"name": "TIDEMILL_REGION", "value": "us-west-2"},
            {"name": "TIDEMILL_SCRATCH", "value": "/scratch"},
            {"name": "TIDEMILL_CACHE", "value": "/cache"},
            {"name": "TIDEMILL_NOTICE", "value": "/tidemill/notice"},
            {"name": "TIDEMILL_MIN_WORKER", "value": "0.1.0"},
            {"name": "AWS_EC2_METADATA_DISABLED", "value": "true"},
        ],
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "2048"}],
        "volumes": VOLUMES,
        "mountPoints": MOUNT_POINTS,
        "logConfiguration": {
            "logDriver": "awslogs",
            "options": {
                "awslogs-group": "group",
                "awslogs-region": "us-west-2",
                "awslogs-stream-prefix": "cpu",
                "mode": "non-blocking",
                "max-buffer-size": "4m",
            },
        },
        "linuxParameters": {"initProcessEnabled": True},
    }


def test_what_is_retried():
    assert queue().one("batch.JobDefinition").inputs["retryStrategy"] == {
        "attempts": 10,
        "evaluateOnExits": [
            {"action": "RETRY", "onStatusReason": "Host EC2*"},
            {"action": "RETRY", "onExitCode": "70"},
            {"action": "RETRY", "onExitCode": "71"},
            {"action": "EXIT", "onExitCode": "72"},
        ],
    }


def test_options_of_a_definition():
    secret = "arn:aws:secretsmanager:us-west-2:123456789012:secret:s-AbCdEf"
    made = queue(timeout_minutes=90, shared_memory_mib=512, ulimits={"nofile": 65536}, secrets={"HF_TOKEN": secret})
    assert made.one("batch.JobDefinition").inputs["timeout"] == {"attemptDurationSeconds": 5400}
    item = container(made)
    assert item["linuxParameters"] == {"initProcessEnabled": True, "sharedMemorySize": 512}
    assert item["ulimits"] == [{"name": "nofile", "softLimit": 65536, "hardLimit": 65536}]
    assert item["secrets"] == [{"name": "HF_TOKEN", "valueFrom": secret}]


def test_gpus():
    made = queue(
        item={"cpus": 4, "memory_mib": 14000, "gpus": 1}, machines={"families": ["g5"], "cpus": {"min": 4, "max": 8}}
    )
    resources = made.one("batch.ComputeEnvironment").inputs["computeResources"]
    assert resources["ec2Configurations"] == [{"imageType": "ECS_AL2023_NVIDIA"}]
    assert resources["instanceTypes"] == ["g5.xlarge", "g5.2xlarge"]
    assert {"type": "GPU", "value": "1"} in container(made)["resourceRequirements"]


def test_families_that_the_region_lacks_are_refused_before_anything_is_made():
    machines = {"families": ["c6i", "c7a", "m7i"], "cpus": {"min": 2, "max": 4}}
    with pytest.raises(ConfigError, match=r"queues\.cpu\.machines\.families.*c7a.*m7i.*Set families: \[c6i\]"):
        queue(machines=machines, unsold=["c7a", "m7i"])


def test_a_size_that_the_region_lacks_can_be_excluded():
    machines: dict[str, Any] = {"families": ["c6i"], "cpus": {"min": 2, "max": 4}}
    with pytest.raises(ConfigError, match=r"machines\.families.*Set exclude: \[c6i\.xlarge\]"):
        queue(machines=machines, unsold=["c6i.xlarge"])
    made = queue(machines=machines | {"exclude": ["c6i.xlarge"]}, unsold=["c6i.xlarge"])
    assert made.one("batch.ComputeEnvironment").inputs["computeResources"]["instanceTypes"] == ["c6i.large"]


def test_arm():
    made = queue(machines={"families": ["c7g"], "cpus": {"min": 4, "max": 8}})
    assert made.one("batch.ComputeEnvironment").inputs["computeResources"]["instanceTypes"] == [
        "c7g.xlarge",
        "c7g.2xlarge",
    ]


def test_the_worker_is_the_machines():
    made = queue(worker_image=WORKER)
    assert container(made)["command"] == ["/tidemill/tidemill-worker", "start", WORKER]
    pointer = made.one("s3.BucketObjectv2").inputs
    assert (pointer["bucket"], pointer["key"], pointer["content"]) == ("store", "machines/cpu/worker", WORKER)
    assert pointer["serverSideEncryption"] == "AES256"


def test_another_worker_changes_nothing_of_the_machines():
    """A change of the launch template would replace them."""
    before, after = (queue(worker_image=image) for image in (WORKER, WORKER.replace("a" * 64, "b" * 64)))
    for kind in ("ec2.LaunchTemplate", "batch.ComputeEnvironment"):
        assert before.one(kind).inputs == after.one(kind).inputs
    assert {**container(before), "command": []} == {**container(after), "command": []}


def test_the_host_script_is_small_old_and_plain():
    """EC2 takes 16 KiB of user data, to which Batch adds; the machine's Python is 3.9."""
    mounts = {f"m{n}": Mount(s3=f"s3://bucket-{n}/{'p' * 60}/", path=f"/mnt/{n}") for n in range(10)}
    data = base64.b64decode(user_data(mounts, "s3://store/machines/cpu/worker", local=True))
    assert len(data) < 15_000
    host = data.decode("ascii").partition("cat > /opt/tidemill/host.py <<'EOF'\n")[2].partition("\nEOF\n")[0]
    nodes = list(ast.walk(ast.parse(host, feature_version=(3, 9))))
    imported = {name.name.partition(".")[0] for each in nodes if isinstance(each, ast.Import) for name in each.names}
    assert imported <= sys.stdlib_module_names
    assert not [each for each in nodes if isinstance(each, ast.ImportFrom)]


def test_a_machine_without_its_worker_takes_no_job():
    text = script({}, "s3://store/machines/cpu/worker")
    assert "\nsystemctl enable --now tidemill-host.service || shutdown -h now\n" in text
    assert "ExecStartPre=" not in script({})
    assert "shutdown -h" not in script({})


def test_a_placement_group_is_made_only_if_asked_for():
    assert not queue().of("ec2.PlacementGroup")
    made = queue(aws={"placement_group": "cluster"})
    assert made.one("ec2.PlacementGroup").inputs["strategy"] == "cluster"
    resources = made.one("batch.ComputeEnvironment").inputs["computeResources"]
    assert resources["placementGroup"] == "q-placement-1a2b3c4"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"shared_memory_mib": 64, "ulimits": {"nofile": 1024}},
        {"mounts": {"e": {"efs": "fs-12345678", "path": "/mnt/e"}}},
        {"secrets": {"A": "arn:aws:ssm:us-west-2:123456789012:parameter/p"}},
    ],
)
def test_container_properties_are_what_batchs_service_model_knows(settings: dict[str, Any]):
    model = ServiceModel(Loader().load_service_model("batch", "service-2"))
    shape = model.shape_for("ContainerProperties")
    properties = container(queue(**settings))
    assert ParamValidator().validate(properties, shape).generate_report() == ""
    assert set(properties) <= set(shape.members)


def test_compute_environments_are_protected_and_have_the_error_hook():
    rung = queue().one("batch.ComputeEnvironment")
    assert rung.options["protect"] is True
    assert rung.options["on_error"] == ["tidemill-relation"]
    assert [made.name for made in queue().resources if made.options["on_error"]] == ["q-spot"]


def failure(count: int = 1, operation: str = "delete", message: str = RELATION) -> pulumi.ErrorHookArgs:
    return pulumi.ErrorHookArgs(
        urn="urn", id="ce-1", name="q-spot", type="t", failed_operation=operation, errors=[message] * count
    )


def answers(monkeypatch: pytest.MonkeyPatch, args: pulumi.ErrorHookArgs) -> tuple[bool, list[float], list[str]]:
    """The hook's answer, how long it slept, and its messages."""
    slept: list[float] = []
    told: list[str] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(compute_environment.asyncio, "sleep", sleep)
    for level in ("info", "error"):
        monkeypatch.setattr(pulumi.log, level, told.append)
    return asyncio.run(wait_for_relation(args)), slept, told


def test_replacing_a_compute_environment_waits_for_batch_to_let_go(monkeypatch: pytest.MonkeyPatch):
    """pulumi-aws 6233."""
    assert answers(monkeypatch, failure(1))[:2] == (True, [5])
    assert answers(monkeypatch, failure(4))[:2] == (True, [40])


def test_an_environment_that_is_still_being_disabled_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    message = "ClientException: Cannot delete, resource is being modified."
    assert answers(monkeypatch, failure(2, message=message))[:2] == (True, [10])


def test_the_wait_ends_with_what_to_do(monkeypatch: pytest.MonkeyPatch):
    again, slept, (told,) = answers(monkeypatch, failure(40))
    assert (again, slept) == (False, [])
    assert "Run `pulumi up` again later" in told


def test_an_update_that_outlasts_the_providers_patience_is_explained(monkeypatch: pytest.MonkeyPatch):
    late = "timeout while waiting for state to become 'VALID' (last state: 'UPDATING', timeout: 20m0s)"
    again, slept, (told,) = answers(monkeypatch, failure(operation="update", message=late))
    assert (again, slept) == (False, [])
    assert "Run `pulumi up` again when" in told


@pytest.mark.parametrize(
    "args",
    [failure(operation="create"), failure(message="AccessDenied"), failure(count=0)],
    ids=["create", "other", "none"],
)
def test_other_errors_are_not_repeated(monkeypatch: pytest.MonkeyPatch, args: pulumi.ErrorHookArgs):
    assert answers(monkeypatch, args) == (False, [], [])


def test_the_pauses_grow_and_end_after_about_ten_minutes():
    pauses = [pause_seconds(failures) for failures in range(1, 100)]
    waited = [pause for pause in pauses if pause is not None]
    assert waited[:6] == [5, 10, 20, 40, 60, 60]
    assert 600 <= sum(waited) <= 660
    assert pauses[len(waited) :] == [None] * (99 - len(waited))


def test_submitting_to_this_queue_alone():
    statements = queue(submitter=True).document_of("q-submit-r")
    first = statements[0]
    assert first["Resource"] == ["arn:mock:JobQueue:q-queue", "arn:mock:JobDefinition:q-default:*"]
    assert first["Condition"]["StringEquals"] == {"aws:RequestTag/tidemill:team": "vision"}
    text = json.dumps(statements)
    assert "RegisterJobDefinition" not in text
    assert "PassRole" not in text


def test_a_queue_alone_refuses_what_a_stack_would():
    with pytest.raises(ConfigError, check=about("tidemill:queues.cpu.item.cpus", "0")):
        queue(item={"cpus": 0})


def test_s3_mounts_are_refused_where_nobody_said_that_machines_may_read_them():
    mounts = {"models": {"s3": "s3://team-models", "path": "/mnt/models"}}
    with pytest.raises(ConfigError, check=about("tidemill:queues.cpu.mounts.models.s3", '"s3://team-models"')):
        queue(mounts=mounts, reads_mounts=False)
    assert queue(mounts=mounts).one("batch.JobQueue")
    assert queue(reads_mounts=False).one("batch.JobQueue")
