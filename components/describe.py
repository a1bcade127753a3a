"""A pipeline's descriptor: what its users need to know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pulumi

from components import machines
from components.config import Queue, StackConfig
from components.outputs import whole
from tidemill.descriptor import SPEC_VERSION, Descriptor


class BatchQueue(Protocol):
    """What the descriptor has of a queue on AWS."""

    arn: pulumi.Output[str]
    job_definitions: dict[str, pulumi.Output[str]]


class WorkerPool(Protocol):
    """What the descriptor has of a queue on GCP."""

    topic: pulumi.Output[str]
    subscription: pulumi.Output[str]
    dead_letters: pulumi.Output[str]


def describe(
    config: StackConfig,
    *,
    region: pulumi.Input[str],
    account: pulumi.Input[str],
    store_uri: pulumi.Input[str],
    log_group: pulumi.Input[str],
    queues: Mapping[str, Any],
) -> pulumi.Output[dict[str, Any]]:
    """The descriptor as plain data, checked against its model once all its values are known."""
    content = whole(
        {
            "team": config.team,
            "environment": config.environment,
            "cloud": config.cloud,
            "region": region,
            "account": account,
            "store": store_uri,
            "log_group": log_group,
            "queues": queues,
            "writable": config.data.write,
            "readable": [*config.data.read, *config.data.write],
            "expire_jobs_after_days": config.store.expire_jobs_after_days,
            "max_spec": SPEC_VERSION,
            "channels": config.monitoring.job_channels,
        }
    )
    return content.apply(_checked)


def _checked(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content as its model writes it. What older stacks do not have is left out where it has the default, so that
    their descriptor stays the same."""
    found = Descriptor.model_validate(content).model_dump(mode="json")
    for queue in found["queues"].values():
        if queue["scratch"] == "disk":
            del queue["scratch"]
        for rung in queue["capacity"]:
            if rung["max_price_percent"] is None:
                del rung["max_price_percent"]
    return found


def as_text(descriptor: pulumi.Output[dict[str, Any]]) -> pulumi.Output[str]:
    """The descriptor as in `pipeline.json`."""
    return descriptor.apply(lambda plain: json.dumps(plain, indent=2))


def aws_queue(settings: Queue, queue: BatchQueue) -> dict[str, Any]:
    """A queue on AWS in the descriptor."""
    images = {
        name: {"ref": reference, "job_definition": queue.job_definitions[name]}
        for name, reference in settings.images.items()
    }
    batch = {"job_queue": queue.arn, "properties": "container"}
    return {**_queue(settings, images, settings.types("aws")), "aws": batch}


def gcp_queue(settings: Queue, pool: WorkerPool, image: pulumi.Input[str]) -> dict[str, Any]:
    """A queue on GCP in the descriptor; ``image`` is the reference that its machines pull."""
    names = {"topic": pool.topic, "subscription": pool.subscription, "dead_letters": pool.dead_letters}
    return {**_queue(settings, {"default": {"ref": image}}, settings.types("gcp")), "gcp": names}


def _queue(settings: Queue, images: Mapping[str, Any], types: Sequence[machines.MachineType]) -> dict[str, Any]:
    return {
        "item": settings.item.model_dump(),
        "images": images,
        "architecture": types[0].architecture,
        "machines": [{"type": m.type, "cpus": m.cpus, "memory_mib": m.memory_mib, "gpus": m.gpus} for m in types],
        "capacity": [
            {"market": rung.market, "max_cpus": rung.max_cpus, "max_price_percent": rung.max_price_percent}
            for rung in settings.open_rungs
        ],
        "scratch_gib": settings.scratch_gib,
        **({"scratch": "local"} if settings.scratch == "local" else {}),
    }
