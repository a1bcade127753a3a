"""`python3 -m tidemill.worker`: the program of a container. Its exit code is what the queue's retry rules read."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from tidemill import services
from tidemill.descriptor import WorkerExit
from tidemill.errors import CallerError
from tidemill.machine import Capacity
from tidemill.store import Store, Stores
from tidemill.version import __version__
from tidemill.worker.exit_codes import EXPECTED, exit_of
from tidemill.worker.items.runners import Runners
from tidemill.worker.items.staging import Staging
from tidemill.worker.loop import Worker
from tidemill.worker.machine.heartbeat import MachineHeartbeat
from tidemill.worker.machine.reclaim import ReclaimWatch
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.stop import Stop, StopReason
from tidemill.worker.machine.usage import adopt_orphans
from tidemill.worker.output import limit_items, log, log_event, serve
from tidemill.worker.place import WorkerPlace
from tidemill.worker.settings import Settings, child_environment

BEATS = 5
"""Heartbeats of a chunk per heartbeat of its machine: one per minute."""
DOOMED_SECONDS = 180.0
"""How long a worker that was started on a machine of AWS with a notice waits to be ended with it. To exit would bring
the next one here."""


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
            place = _place(settings, env, at_the_end)
            watch = ReclaimWatch(place.metadata, stop, settings.poll_seconds)
            watch.start()
            if stop.raised:
                return _doomed(stop, told, place)
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
        if watch.notice and code is WorkerExit.RECLAIMED and place.replaced:
            _until_not_placeable(stop, told, watch.notice.until_not_placeable(settings.drain_seconds))
        return code


def _place(settings: Settings, env: Mapping[str, str], at_the_end: ExitStack) -> WorkerPlace:
    """The place that this container's service gives. Where nothing names it, a subscription tells which one it is."""
    service = services.find(env.get("TIDEMILL_SERVICE") or ("pubsub" if settings.subscription else "batch"))
    if service is None:
        raise CallerError.about("TIDEMILL_SERVICE", env["TIDEMILL_SERVICE"], "a service of this worker", "Correct it.")
    return service.part("lease").place(settings, env, at_the_end)


def _work(settings: Settings, place: WorkerPlace, stop: Stop, env: Mapping[str, str]) -> WorkerExit:
    adopt_orphans()
    store = Store.open(settings.store, region=settings.region)
    scratch = Scratch(settings.scratch, f"{os.getpid()}-{time.time_ns():x}", settings.cache)
    staging = Staging(Stores(store, settings.region), scratch)
    try:
        runners = Runners(staging, scratch, stop, settings.python, place.secrets)
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


def _doomed(stop: Stop, told: threading.Event, place: WorkerPlace) -> WorkerExit:
    """The machine was already being taken back when this worker was started on it."""
    log("this machine is being reclaimed; leasing no chunks", why=stop.reason.value if stop.reason else "")
    if stop.reason is StopReason.NOTICE and place.replaced:
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
