"""An image of a queue as a Batch job definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from tidemill.descriptor import MIN_WORKER, WorkerExit

from ...config import Mount, Queue
from ...outbound import Outbound
from ...outputs import json_of
from ..queues import worker_variables
from .user_data import BUNDLE, CACHE, S3_MOUNTS, SCRATCH, WORKER

ATTEMPTS = 10
"""Batch's limit. Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_RetryStrategy.html"""

_WORKER = ["python3", "-m", "tidemill.worker"]
"""The command of an image that contains the worker."""
_HOST = "/tidemill"
"""The machine's folder in containers: the launcher, the workers' trees and Spot's notice."""


@dataclass
class Surroundings:
    """Settings shared by all images of a queue."""

    queue: str
    store_uri: pulumi.Input[str]
    region: pulumi.Input[str]
    log_group: pulumi.Input[str]
    job_role_arn: pulumi.Input[str]
    execution_role_arn: pulumi.Input[str]
    worker_image: pulumi.Input[str] | None
    file_systems: Mapping[str, pulumi.Input[str]]
    outbound: Outbound
    tags: Mapping[str, pulumi.Input[str]] | None
    rungs: Sequence[pulumi.Resource]
    """Resources that must change first: a new revision may need features of new machines."""


def job_definition(
    name: str, image: pulumi.Input[str], settings: Queue, around: Surroundings, parent: pulumi.Resource
) -> aws.batch.JobDefinition:
    """A job definition. Older revisions stay registered, because waiting jobs use them."""
    timeout = settings.timeout_minutes
    return aws.batch.JobDefinition(
        name,
        type="container",
        platform_capabilities=["EC2"],
        container_properties=json_of(_container(image, settings, around)),
        retry_strategy=_retries(),
        timeout=aws.batch.JobDefinitionTimeoutArgs(attempt_duration_seconds=timeout * 60) if timeout else None,
        propagate_tags=True,
        deregister_on_new_revision=False,
        tags=around.tags,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=around.rungs),
    )


def _container(image: pulumi.Input[str], settings: Queue, around: Surroundings) -> dict[str, Any]:
    """One container, whose exit code is the job's. It contains the worker, or the machine has it (`host.py`)."""
    environment = {
        "TIDEMILL_STORE": around.store_uri,
        "TIDEMILL_QUEUE": around.queue,
        "TIDEMILL_REGION": around.region,
        "TIDEMILL_SCRATCH": "/scratch",
        "TIDEMILL_CACHE": "/cache",
        "TIDEMILL_NOTICE": f"{_HOST}/notice",
        # An image may contain its own worker, of any age.
        "TIDEMILL_MIN_WORKER": MIN_WORKER,
        # Containers cannot reach instance metadata; SDKs must not wait for it.
        "AWS_EC2_METADATA_DISABLED": "true",
        **worker_variables("aws", settings),
        **around.outbound.variables(f"{_HOST}/{BUNDLE}"),
    }
    worker = around.worker_image
    container: dict[str, Any] = {
        "image": image,
        "command": _WORKER if worker is None else [f"{_HOST}/tidemill-worker", "start", worker],
        "executionRoleArn": around.execution_role_arn,
        "jobRoleArn": around.job_role_arn,
        "environment": [{"name": key, "value": value} for key, value in environment.items()],
        "resourceRequirements": _resources(settings),
        "volumes": _volumes(settings, around),
        "mountPoints": _mount_points(settings),
        "logConfiguration": _log(around),
        # Reaps processes that a user's program leaves behind, and forwards signals to the worker.
        "linuxParameters": {"initProcessEnabled": True, **_shared_memory(settings), **_devices(settings)},
    }
    if settings.secrets:
        container["secrets"] = [{"name": key, "valueFrom": arn} for key, arn in sorted(settings.secrets.items())]
    if settings.ulimits:
        container["ulimits"] = [
            {"name": key, "softLimit": limit, "hardLimit": limit} for key, limit in sorted(settings.ulimits.items())
        ]
    return container


def _log(around: Surroundings) -> dict[str, Any]:
    options = {
        "awslogs-group": around.log_group,
        "awslogs-region": around.region,
        "awslogs-stream-prefix": around.queue,
        # While CloudWatch throttles, lose lines instead of blocking programs or their start. The default of these two
        # depends on the account's age.
        "mode": "non-blocking",
        "max-buffer-size": "4m",
    }
    return {"logDriver": "awslogs", "options": options}


def _shared_memory(settings: Queue) -> dict[str, int]:
    return {"sharedMemorySize": settings.shared_memory_mib} if settings.shared_memory_mib else {}


def _devices(settings: Queue) -> dict[str, Any]:
    """All Neuron devices of a machine: Batch hands out none, so a machine has one container (`check_neurons`).

    Source: https://docs.aws.amazon.com/AmazonECS/latest/developerguide/ecs-inference-task-def.html
    """
    paths = [f"/dev/neuron{number}" for number in range(settings.types("aws")[0].neurons)]
    devices = [{"hostPath": path, "containerPath": path, "permissions": ["READ", "WRITE"]} for path in paths]
    return {"devices": devices} if devices else {}


def _resources(settings: Queue) -> list[dict[str, str]]:
    item = settings.item
    wanted = {"VCPU": item.cpus, "MEMORY": item.memory_mib, "GPU": item.gpus}
    return [{"type": kind, "value": str(value)} for kind, value in wanted.items() if value]


def _volumes(settings: Queue, around: Surroundings) -> list[dict[str, Any]]:
    own = {"scratch": SCRATCH, "cache": CACHE, "tidemill": WORKER}
    volumes: list[dict[str, Any]] = [{"name": name, "host": {"sourcePath": path}} for name, path in own.items()]
    for name, mount in sorted(settings.mounts.items()):
        volumes.append({"name": f"mount-{name}", **_source(name, mount, around)})
    return volumes


def _source(name: str, mount: Mount, around: Surroundings) -> dict[str, Any]:
    if mount.file_system:
        both = pulumi.Output.from_input(around.file_systems[mount.file_system])
        elastic = {
            "fileSystemId": both.apply(lambda source: source.partition("/")[0]),
            "transitEncryption": "ENABLED",
            "authorizationConfig": {
                "accessPointId": both.apply(lambda source: source.partition("/")[2]),
                "iam": "ENABLED",
            },
        }
        return {"efsVolumeConfiguration": elastic}
    if mount.efs:
        # ECS mounts it with the helper in its image: this needs no user data, and other jobs need no EFS.
        return {"efsVolumeConfiguration": {"fileSystemId": mount.efs, "transitEncryption": "ENABLED"}}
    return {"host": {"sourcePath": mount.host or f"{S3_MOUNTS}/{name}"}}


def _mount_points(settings: Queue) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = [
        {"sourceVolume": name, "containerPath": f"/{name}", "readOnly": False} for name in ("scratch", "cache")
    ]
    points.append({"sourceVolume": "tidemill", "containerPath": _HOST, "readOnly": True})
    for name, mount in sorted(settings.mounts.items()):
        read_only = mount.read_only or mount.s3 is not None
        points.append({"sourceVolume": f"mount-{name}", "containerPath": mount.path, "readOnly": read_only})
    return points


def _retries() -> aws.batch.JobDefinitionRetryStrategyArgs:
    """Retry rules for the worker's exit codes; a job that matches no rule is retried.

    Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_EvaluateOnExit.html
    """
    rule = aws.batch.JobDefinitionRetryStrategyEvaluateOnExitArgs
    return aws.batch.JobDefinitionRetryStrategyArgs(
        attempts=ATTEMPTS,
        evaluate_on_exits=[
            rule(action="RETRY", on_status_reason="Host EC2*"),
            rule(action="RETRY", on_exit_code=str(int(WorkerExit.RECLAIMED))),
            rule(action="RETRY", on_exit_code=str(int(WorkerExit.STORE_UNAVAILABLE))),
            rule(action="EXIT", on_exit_code=str(int(WorkerExit.STOPPED))),
        ],
    )
