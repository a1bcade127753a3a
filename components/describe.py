"""A pipeline's descriptor: what its users need to know of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from components import machines
from components.aws.account import Place
from components.aws.batch_queue import AwsBatchQueue
from components.config import Queue, StackConfig
from tidemill.descriptor import Descriptor


def describe(
    config: StackConfig,
    place: Place,
    store_uri: pulumi.Input[str],
    log_group: pulumi.Input[str],
    queues: Mapping[str, AwsBatchQueue],
) -> pulumi.Output[dict[str, Any]]:
    """The descriptor as plain data, checked against its model as soon as everything in it is known."""
    content = pulumi.Output.from_input(
        {
            "team": config.team,
            "environment": config.environment,
            "cloud": config.cloud,
            "region": place.region,
            "account": place.account,
            "store": store_uri,
            "log_group": log_group,
            "writable": list(config.data.write),
            "queues": {name: _queue(config.queues[name], queue) for name, queue in queues.items()},
        }
    )
    return content.apply(lambda plain: Descriptor.model_validate(plain).model_dump(mode="json"))


def _queue(settings: Queue, queue: AwsBatchQueue) -> dict[str, Any]:
    cpus = settings.machines.cpus
    types = machines.select(settings.machines.families, cpus.min, cpus.max)
    return {
        "item": settings.item.model_dump(),
        "images": {
            name: {"ref": reference, "job_definition": queue.job_definitions[name]}
            for name, reference in settings.images.items()
        },
        "architecture": types[0].architecture,
        "machines": [{"type": m.type, "cpus": m.cpus, "memory_mib": m.memory_mib, "gpus": m.gpus} for m in types],
        "capacity": [rung.model_dump() for rung in settings.capacity],
        "scratch_gib": settings.scratch_gib,
        "aws": {"job_queue": queue.arn},
    }
