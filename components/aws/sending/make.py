"""The parts of a pipeline that send by themselves, and their permissions."""

from __future__ import annotations

from typing import Any

import pulumi

from tidemill import layout

from ...config import repository_of
from ...config.later import ordered
from ..submitter import sender_statements
from .arrivals import AwsArrivals, AwsArrivalsArgs
from .sender import AwsSender, AwsSenderArgs


class Sending:
    """The sender of a pipeline on AWS; without schedules and arrivals nothing.

    Attributes:
        queues: URLs of the queues of events, by the name of their arrivals.
        resources: The components.
    """

    def __init__(self, name: str, parts: Any) -> None:
        config = parts.config
        arrivals = {key: _arrivals(name, key, parts) for key in config.arrivals}
        self.queues = {key: each.queue_url for key, each in arrivals.items()}
        self.resources: list[pulumi.Resource] = [*arrivals.values()]
        if config.sends and (image := config.worker_image):
            sender = _sender(name, image, parts)
            _grant(sender, arrivals, parts)
            self.resources.append(sender)


def _arrivals(name: str, key: str, parts: Any) -> AwsArrivals:
    prefix = parts.config.arrivals[key].prefix
    args = AwsArrivalsArgs(pipeline=name, arrivals=key, prefix=prefix, tags=parts.tags)
    return AwsArrivals(f"{name}-{key}", args, parts.child)


def _sender(name: str, image: str, parts: Any) -> AwsSender:
    config, reference = parts.config, parts.pulled(image)
    if own := repository_of(image):
        admitted = parts.registry.admit_functions(own, parts.account.arn("lambda", f"function:{name}-sender-*"))
        reference = pulumi.Output.all(reference, admitted).apply(lambda both: both[0])
    args = AwsSenderArgs(
        image=reference,
        pipeline_uri=pulumi.Output.concat(parts.store.uri, "/", layout.DESCRIPTOR),
        log_group=parts.logs.group,
        crons={key: each.cron for key, each in config.schedules.items()},
        timezones={key: each.timezone for key, each in config.schedules.items()},
        arrivals=bool(config.arrivals),
        permission_boundary=config.permission_boundary,
        tags=parts.tags,
    )
    return AwsSender(f"{name}-sender", args, parts.child)


def _grant(sender: AwsSender, arrivals: dict[str, AwsArrivals], parts: Any) -> None:
    config, identity, role = parts.config, parts.identity, sender.role
    parts.store.grant_send(role)
    parts.logs.grant_write(role)
    identity.grant_data(role, [*config.data.read, *config.data.write], [], config.data.kms_keys)
    identity.grant_publish(role, ordered(config.monitoring.job_channels.values()))
    sent = [*config.schedules.values(), *config.arrivals.values()]
    named = [queue for queue in config.queues if any(each.queues is None or queue in each.queues for each in sent)]
    watch = sender_statements(parts.account, config.team, config.environment)
    sender.grant_submit([*parts.submit_statements(named), *watch])
    sender.grant_receive([each.queue_arn for each in arrivals.values()])
