"""A pipeline's descriptor: what its users need to know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pulumi

from tidemill import services
from tidemill.descriptor import SPEC_VERSION, Descriptor

from . import machines
from .config import Arrival, Queue, Schedule, StackConfig
from .config.registry_models import in_mirror
from .outputs import whole


class Described(Protocol):
    """One queue or several, such as an `AwsBatchQueue`."""

    def described(self) -> dict[str, Any]:
        """The queues in the descriptor, by their names."""
        ...


def describe(
    config: StackConfig,
    *,
    region: pulumi.Input[str],
    account: pulumi.Input[str],
    store_uri: pulumi.Input[str],
    log_group: pulumi.Input[str],
    queues: Sequence[Described],
    secrets: pulumi.Input[str] | None = None,
    events: Mapping[str, pulumi.Input[str]] | None = None,
) -> pulumi.Output[dict[str, Any]]:
    """The descriptor as plain data, checked against its model once all its values are known.

    Args:
        events: Where the events of new files wait, by the name of their arrivals: the URL of a queue of SQS, or the
            full name of a subscription of Pub/Sub.
    """
    blocks = {name: {**block, **_service(config, name)} for each in queues for name, block in each.described().items()}
    for name, block in blocks.items():
        for image, reference in config.queues[name].images.items():
            block["images"][image]["mirrored"] = in_mirror(config.mirrors, reference)
    content = whole(
        {
            "team": config.team,
            "environment": config.environment,
            "cloud": config.cloud,
            "region": region,
            "account": account,
            "store": store_uri,
            "log_group": log_group,
            "queues": {name: blocks[name] for name in config.queues},
            "writable": config.data.write,
            "readable": [*config.data.read, *config.data.write],
            "expire_jobs_after_days": config.store.expire_jobs_after_days,
            "max_spec": SPEC_VERSION,
            "channels": config.monitoring.job_channels,
            "owner": config.monitoring.owner,
            "secrets": secrets,
            "schedules": {name: _sent(config, each) for name, each in config.schedules.items()},
            "arrivals": {
                name: {**_sent(config, each), "queue": (events or {}).get(name)}
                for name, each in config.arrivals.items()
            },
        }
    )
    return content.apply(_checked)


def _service(config: StackConfig, queue: str) -> dict[str, str]:
    """A queue's service, which is left out where it is the cloud's own."""
    service = services.of_queue(config.cloud, config.queues[queue])
    return {} if service == services.of_cloud(config.cloud) else {"service": service.name}


def _sent(config: StackConfig, each: Schedule | Arrival) -> dict[str, Any]:
    """A schedule or arrivals with the queues that their template may use."""
    return {**each.model_dump(), "queues": each.queues or [*config.queues]}


def _checked(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content as its model writes it, without some keys that have their default."""
    descriptor = Descriptor.model_validate(content).model_dump(mode="json")
    for queue in descriptor["queues"].values():
        if queue["scratch"] == "disk":
            del queue["scratch"]
        for rung in queue["capacity"]:
            if rung["max_price_percent"] is None:
                del rung["max_price_percent"]
    return descriptor


def as_text(descriptor: pulumi.Output[dict[str, Any]]) -> pulumi.Output[str]:
    """The descriptor as in `pipeline.json`."""
    return descriptor.apply(lambda plain: json.dumps(plain, indent=2))


def queue_block(settings: Queue, images: Mapping[str, Any], types: Sequence[machines.MachineType]) -> dict[str, Any]:
    """The part of a queue's description that every service has."""
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
