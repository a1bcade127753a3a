"""An image of a queue as a Batch job definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from components.aws.user_data import CACHE, S3_MOUNTS, SCRATCH
from components.config import Mount, Queue
from components.outputs import json_of
from tidemill.descriptor import MIN_WORKER, WorkerExit

CONTAINER = "item"
ATTEMPTS = 10
"""Batch's limit. Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_RetryStrategy.html"""

_WORKER = ["python3", "-m", "tidemill.worker"]
"""Of an image that brings the worker."""
_TREE = "/tidemill"
"""Where containers see the worker's tree."""
_TREES = "/var/lib/tidemill/worker"
"""Where machines keep it, one folder an image: it is copied once a machine, not once a container."""
_COPY_MIB = 64
"""What the copy may take; Batch adds it to what the item asks for."""


@dataclass
class Surroundings:
    """What every image of a queue runs with."""

    queue: str
    store_uri: pulumi.Input[str]
    region: pulumi.Input[str]
    log_group: pulumi.Input[str]
    job_role_arn: pulumi.Input[str]
    execution_role_arn: pulumi.Input[str]
    worker_image: pulumi.Input[str] | None
    tags: Mapping[str, pulumi.Input[str]] | None


def job_definition(
    name: str, image: pulumi.Input[str], settings: Queue, around: Surroundings, parent: pulumi.Resource
) -> aws.batch.JobDefinition:
    """A job definition. Older revisions stay registered: jobs that wait were submitted with one of them."""
    task = {
        "executionRoleArn": around.execution_role_arn,
        "taskRoleArn": around.job_role_arn,
        "containers": [*_worker(around), _container(image, settings, around)],
        "volumes": [*_volumes(settings), *_tree(around)],
    }
    timeout = settings.timeout_minutes
    return aws.batch.JobDefinition(
        name,
        type="container",
        platform_capabilities=["EC2"],
        ecs_properties=json_of({"taskProperties": [task]}),
        retry_strategy=_retries(),
        timeout=aws.batch.JobDefinitionTimeoutArgs(attempt_duration_seconds=timeout * 60) if timeout else None,
        propagate_tags=True,
        deregister_on_new_revision=False,
        tags=around.tags,
        opts=pulumi.ResourceOptions(parent=parent),
    )


def _container(image: pulumi.Input[str], settings: Queue, around: Surroundings) -> dict[str, Any]:
    environment = {
        "TIDEMILL_STORE": around.store_uri,
        "TIDEMILL_QUEUE": around.queue,
        "TIDEMILL_REGION": around.region,
        "TIDEMILL_SCRATCH": "/scratch",
        "TIDEMILL_CACHE": "/cache",
        # An image may bring a worker of its own, and of any age.
        "TIDEMILL_MIN_WORKER": MIN_WORKER,
    }
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": image,
        "command": _WORKER,
        "essential": True,
        "environment": [{"name": key, "value": value} for key, value in environment.items()],
        "resourceRequirements": _resources(settings),
        "mountPoints": _mount_points(settings),
        "logConfiguration": _log(around),
        # Processes that a user's program leaves behind are reaped, and signals reach the worker.
        "linuxParameters": {"initProcessEnabled": True, **_shared_memory(settings)},
    }
    if around.worker_image is not None:
        container["command"] = [f"{_TREE}/tidemill-worker", "start"]
        container["mountPoints"].append({"sourceVolume": "worker", "containerPath": _TREE, "readOnly": True})
        container["dependsOn"] = [{"containerName": "worker", "condition": "SUCCESS"}]
    if settings.secrets:
        container["secrets"] = [{"name": key, "valueFrom": arn} for key, arn in sorted(settings.secrets.items())]
    if settings.ulimits:
        container["ulimits"] = [
            {"name": key, "softLimit": limit, "hardLimit": limit} for key, limit in sorted(settings.ulimits.items())
        ]
    return container


def _worker(around: Surroundings) -> list[dict[str, Any]]:
    """The container that puts the worker's tree on the machine before the item's container starts.

    Source: https://docs.aws.amazon.com/batch/latest/APIReference/API_TaskContainerDependency.html
    """
    if around.worker_image is None:
        return []
    copy = {
        "name": "worker",
        "image": around.worker_image,
        "command": ["copy", "/worker"],
        "essential": False,
        "resourceRequirements": [{"type": "MEMORY", "value": str(_COPY_MIB)}],
        "mountPoints": [{"sourceVolume": "worker", "containerPath": "/worker", "readOnly": False}],
        "logConfiguration": _log(around),
    }
    return [copy]


def _tree(around: Surroundings) -> list[dict[str, Any]]:
    if around.worker_image is None:
        return []
    path = pulumi.Output.from_input(around.worker_image).apply(lambda ref: f"{_TREES}/{ref.rpartition(':')[2][:16]}")
    return [{"name": "worker", "host": {"sourcePath": path}}]


def _log(around: Surroundings) -> dict[str, Any]:
    options = {
        "awslogs-group": around.log_group,
        "awslogs-region": around.region,
        "awslogs-stream-prefix": around.queue,
    }
    return {"logDriver": "awslogs", "options": options}


def _shared_memory(settings: Queue) -> dict[str, int]:
    return {"sharedMemorySize": settings.shared_memory_mib} if settings.shared_memory_mib else {}


def _resources(settings: Queue) -> list[dict[str, str]]:
    item = settings.item
    wanted = {"VCPU": item.cpus, "MEMORY": item.memory_mib, "GPU": item.gpus}
    return [{"type": kind, "value": str(value)} for kind, value in wanted.items() if value]


def _volumes(settings: Queue) -> list[dict[str, Any]]:
    own = {"scratch": SCRATCH, "cache": CACHE}
    volumes: list[dict[str, Any]] = [{"name": name, "host": {"sourcePath": path}} for name, path in own.items()]
    for name, mount in sorted(settings.mounts.items()):
        volumes.append({"name": f"mount-{name}", **_source(name, mount)})
    return volumes


def _source(name: str, mount: Mount) -> dict[str, Any]:
    if mount.efs:
        # ECS mounts it, with the helper that its image ships: no line of user data, and jobs without it need no EFS.
        return {"efsVolumeConfiguration": {"fileSystemId": mount.efs, "transitEncryption": "ENABLED"}}
    return {"host": {"sourcePath": mount.host or f"{S3_MOUNTS}/{name}"}}


def _mount_points(settings: Queue) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = [
        {"sourceVolume": name, "containerPath": f"/{name}", "readOnly": False} for name in ("scratch", "cache")
    ]
    for name, mount in sorted(settings.mounts.items()):
        read_only = mount.read_only or mount.s3 is not None
        points.append({"sourceVolume": f"mount-{name}", "containerPath": mount.path, "readOnly": read_only})
    return points


def _retries() -> aws.batch.JobDefinitionRetryStrategyArgs:
    """What the worker's exit codes mean; a job that matches no rule is retried.

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
