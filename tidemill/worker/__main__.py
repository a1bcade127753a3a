"""`python3 -m tidemill.worker`: the program of a container. Its exit code is what the queue's retry rules read."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping

from tidemill.descriptor import WorkerExit
from tidemill.errors import CallerError, StoreError
from tidemill.store import Store, Stores
from tidemill.worker.capacity import Capacity
from tidemill.worker.consumption import adopt_orphans
from tidemill.worker.leases.array import ArrayLeases
from tidemill.worker.loop import Worker
from tidemill.worker.output import say
from tidemill.worker.reclaim import Metadata, Watch
from tidemill.worker.runners import Runners
from tidemill.worker.scratch import Scratch
from tidemill.worker.settings import Settings, child_environment
from tidemill.worker.staging import Staging
from tidemill.worker.stop import Stop, Why

DOOMED_SECONDS = 180.0
"""How long a worker that was started on a machine with a notice waits to be ended with it. To exit would bring the
next one here."""


def main(env: Mapping[str, str] = os.environ) -> WorkerExit:
    """Run the worker of one container; see `WorkerExit` for what it returns."""
    stop, told = Stop(), threading.Event()

    def ended(*_: object) -> None:
        told.set()
        stop(Why.SIGNAL)

    signal.signal(signal.SIGTERM, ended)
    signal.signal(signal.SIGINT, ended)
    try:
        settings = Settings.read(env)
        leases = ArrayLeases(env)
        watch = Watch(Metadata(settings.metadata) if settings.metadata else None, stop, settings.poll_seconds)
        watch.start()
        if stop:
            return _doomed(stop, told)
        code = _work(settings, leases, stop, env)
        watch.close()
    except CallerError as error:
        say(str(error), "error")
        return WorkerExit.STOPPED
    except (StoreError, OSError) as error:
        say(str(error), "error")
        return WorkerExit.STORE_UNAVAILABLE
    if watch.notice and code is WorkerExit.RECLAIMED:
        _until_not_placeable(stop, told, watch.notice.until_not_placeable(settings.drain_seconds))
    return code


def _work(settings: Settings, leases: ArrayLeases, stop: Stop, env: Mapping[str, str]) -> WorkerExit:
    adopt_orphans()
    store = Store.open(settings.store, region=settings.region)
    scratch = Scratch(settings.scratch, f"{os.getpid()}-{time.time_ns():x}", settings.cache)
    staging = Staging(Stores(store, settings.region), scratch, stop)
    try:
        runners = Runners(staging, scratch, stop, settings.python)
        capacity = Capacity.read(env=env) if settings.whole_machine else None
        base_env = child_environment(env)
        worker = Worker(store, leases, runners, scratch=scratch, stop=stop, base_env=base_env, capacity=capacity)
        return worker.run()
    finally:
        staging.close()
        scratch.close()


def _doomed(stop: Stop, told: threading.Event) -> WorkerExit:
    """The machine was already being taken back when this worker was started on it."""
    say("this machine is being taken back; waiting for its end", why=stop.why.value if stop.why else "")
    if stop.why is Why.NOTICE:
        told.wait(DOOMED_SECONDS)
    return WorkerExit.RECLAIMED


def _until_not_placeable(stop: Stop, told: threading.Event, drain_seconds: float) -> None:
    """Stay until the host is no longer given work: what exits earlier makes room for its own successor."""
    left = stop.at + drain_seconds - time.monotonic()
    if left > 0:
        say(f"drained; staying {left:.0f} s until this host is given no more work")
        told.wait(left)


if __name__ == "__main__":
    sys.exit(main())
