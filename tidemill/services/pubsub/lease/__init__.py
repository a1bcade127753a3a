"""A worker on a machine that pulls from a subscription."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress

from tidemill.services.pubsub.lease.source import PubSubLeases
from tidemill.services.pubsub.lease.subscription import Subscription
from tidemill.worker.channels import PubSubTopics
from tidemill.worker.cloud_log import CloudLog, resource_of
from tidemill.worker.google_api import Api, endpoint_of
from tidemill.worker.machine.idle import IdlePolicy
from tidemill.worker.metadata.gce import GceMetadata
from tidemill.worker.output import also_to
from tidemill.worker.place import UNKNOWN, WorkerPlace
from tidemill.worker.secret_readers import SecretManager, given_from
from tidemill.worker.settings import Settings


def place(settings: Settings, env: Mapping[str, str], at_the_end: ExitStack) -> WorkerPlace:
    """A machine that serves a subscription until it has been idle for long enough."""
    metadata = GceMetadata.of(env)
    name, zone, facts = "", "", UNKNOWN
    if metadata:
        with suppress(OSError):
            name, zone = metadata.place()
            facts = metadata.machine(name, zone)
    if settings.log:
        written = _cloud_log(settings, settings.log, (name, zone), metadata, env)
        also_to(written.write)
        at_the_end.callback(_close, written)
    life = (settings.machine_until, settings.machine_since)
    until, since = (None if at is None else at + time.monotonic() - time.time() for at in life)
    idle = IdlePolicy(settings.idle_seconds, time.monotonic, until, since)
    token = metadata.token if metadata else None
    subscription = Subscription.of(settings.subscription or "", token, env)
    publish, secrets = PubSubTopics(token, env).publish, given_from(SecretManager(token, env).read)
    return WorkerPlace(metadata, PubSubLeases(subscription, idle), idle.may_lease, name, facts, publish, secrets)


def _cloud_log(
    settings: Settings, log: str, place: tuple[str, str], metadata: GceMetadata | None, env: Mapping[str, str]
) -> CloudLog:
    resource = resource_of(log.split("/")[1], settings.queue, *place)
    return CloudLog(Api(endpoint_of("logging", env), metadata.token if metadata else None), log, resource)


def _close(log: CloudLog) -> None:
    also_to(None)
    log.close()
