"""`python3 -m tidemill.worker`: the program of a container. Its exit code is what the queue's retry rules read."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidemill.descriptor import WorkerExit
from tidemill.ledger.digest import UNKNOWN, RanOn
from tidemill.machine import Capacity
from tidemill.store import Store, Stores
from tidemill.version import __version__
from tidemill.worker.endings import Publish, no_topics
from tidemill.worker.exits import EXPECTED, exit_of
from tidemill.worker.heartbeat import MachineHeartbeat
from tidemill.worker.idle import IdlePolicy
from tidemill.worker.leases import LeaseSource
from tidemill.worker.leases.array import ArrayLeases
from tidemill.worker.loop import Worker
from tidemill.worker.metadata import Metadata
from tidemill.worker.output import also_to, limit_items, log, log_event, serve
from tidemill.worker.reclaim import ReclaimWatch
from tidemill.worker.runners import Runners
from tidemill.worker.scratch import Scratch
from tidemill.worker.settings import Settings, child_environment
from tidemill.worker.staging import Staging
from tidemill.worker.stop import Stop, StopReason
from tidemill.worker.usage import adopt_orphans

if TYPE_CHECKING:
    from tidemill.ending.message import Message
    from tidemill.worker.cloud_log import CloudLog
    from tidemill.worker.metadata.gce import GceMetadata

BEATS = 5
"""Heartbeats of a chunk per heartbeat of its machine: one per minute."""
DOOMED_SECONDS = 180.0
"""How long a worker that was started on a machine of AWS with a notice waits to be ended with it. To exit would bring
the next one here."""


@dataclass(frozen=True)
class _Cloud:
    """Where a worker is: what its cloud gives it."""

    metadata: Metadata | None
    leases: LeaseSource
    lasts: Callable[[float], bool] = lambda seconds: True
    """Whether the machine lasts so many seconds more."""
    machine: str = ""
    """Its name, where it has to say that it is alive."""
    facts: RanOn = UNKNOWN
    publish: Publish = no_topics


def main(env: Mapping[str, str] = os.environ) -> WorkerExit:
    """Run the worker of one container; see `WorkerExit` for what it returns."""
    stop, told = Stop(), threading.Event()

    def ended(*_: object) -> None:
        told.set()
        stop.set(StopReason.SIGNAL)

    signal.signal(signal.SIGTERM, ended)
    signal.signal(signal.SIGINT, ended)
    with ExitStack() as at_the_end:
        try:
            settings = Settings.read(env)
            limit_items(settings.item_log_kib * 1024)
            serve(settings.queue)
            place = _on_gcp(settings, env, at_the_end) if settings.subscription else _on_aws(settings, env)
            watch = ReclaimWatch(place.metadata, stop, settings.poll_seconds)
            watch.start()
            if stop.raised:
                return _doomed(stop, told, settings)
            machine: dict[str, Any] = {
                "machine": place.facts.type,
                "zone": place.facts.zone,
                "market": place.facts.market,
            }
            log_event("start", "worker started", **machine, version=__version__)
            code = _work(settings, place, stop, env)
            watch.close()
        except EXPECTED as error:
            code = exit_of(error)
            log_event("worker_error", str(error), "error", code=int(code))
            return code
        except Exception as error:
            # The trace goes to stderr alone, which no metric counts.
            log_event("worker_error", f"{type(error).__name__}: {error}", "error", code=1)
            raise
        if watch.notice and code is WorkerExit.RECLAIMED and not settings.subscription:
            _until_not_placeable(stop, told, watch.notice.until_not_placeable(settings.drain_seconds))
        return code


def _on_aws(settings: Settings, env: Mapping[str, str]) -> _Cloud:
    from tidemill.worker.metadata.ec2 import Ec2Notice, read_machine

    def publish(topic: str, message: Message) -> None:
        from tidemill.worker.publishing import Sns

        Sns(env).publish(topic, message)

    if not settings.notice:
        return _Cloud(None, ArrayLeases(env), publish=publish)
    facts = read_machine(settings.notice.with_name("machine"))
    return _Cloud(Ec2Notice(settings.notice), ArrayLeases(env), facts=facts, publish=publish)


def _on_gcp(settings: Settings, env: Mapping[str, str], at_the_end: ExitStack) -> _Cloud:
    """A machine that serves a subscription until it has been idle for long enough."""
    from tidemill.worker.leases.pubsub import PubSubLeases
    from tidemill.worker.leases.subscription import Subscription
    from tidemill.worker.metadata.gce import GceMetadata
    from tidemill.worker.publishing import PubSubTopics

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
    subscription = Subscription.of(settings.subscription or "", metadata.token if metadata else None, env)
    publish = PubSubTopics(metadata.token if metadata else None, env).publish
    return _Cloud(metadata, PubSubLeases(subscription, idle), idle.may_lease, name, facts, publish)


def _cloud_log(
    settings: Settings, log: str, place: tuple[str, str], metadata: GceMetadata | None, env: Mapping[str, str]
) -> CloudLog:
    from tidemill.worker.cloud_log import CloudLog, resource_of
    from tidemill.worker.google_api import Api, endpoint_of

    resource = resource_of(log.split("/")[1], settings.queue, *place)
    return CloudLog(Api(endpoint_of("logging", env), metadata.token if metadata else None), log, resource)


def _close(log: CloudLog) -> None:
    also_to(None)
    log.close()


def _work(settings: Settings, place: _Cloud, stop: Stop, env: Mapping[str, str]) -> WorkerExit:
    adopt_orphans()
    store = Store.open(settings.store, region=settings.region)
    scratch = Scratch(settings.scratch, f"{os.getpid()}-{time.time_ns():x}", settings.cache)
    staging = Staging(Stores(store, settings.region), scratch)
    try:
        runners = Runners(staging, scratch, stop, settings.python)
        worker = Worker(
            store,
            place.leases,
            runners,
            scratch=scratch,
            stop=stop,
            base_env=child_environment(env),
            capacity=Capacity.read(env=env) if settings.whole_machine else None,
            lasts=place.lasts,
            # As often in a cloud whose clock is faster.
            heartbeat_seconds=settings.alive_seconds / BEATS,
            beat=MachineHeartbeat(store, place.machine, settings.alive_seconds).beat if place.machine else lambda: None,
            machine=place.facts,
            publish=place.publish,
        )
        return worker.run()
    finally:
        staging.close()
        scratch.close()


def _doomed(stop: Stop, told: threading.Event, settings: Settings) -> WorkerExit:
    """The machine was already being taken back when this worker was started on it."""
    log("this machine is being reclaimed; leasing no chunks", why=stop.reason.value if stop.reason else "")
    if stop.reason is StopReason.NOTICE and not settings.subscription:
        told.wait(DOOMED_SECONDS)
    return WorkerExit.RECLAIMED


def _until_not_placeable(stop: Stop, told: threading.Event, drain_seconds: float) -> None:
    """Stay until the host is no longer given work: what exits earlier makes room for its own successor."""
    left = stop.at + drain_seconds - time.monotonic()
    if left > 0:
        log(f"drained; staying {left:.0f} s until this host gets no more work")
        told.wait(left)


if __name__ == "__main__":
    sys.exit(main())
