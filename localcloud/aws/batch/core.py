"""What the parts of the emulated Batch share: settings, errors, one lock, timers and a few helper threads."""

from __future__ import annotations

import heapq
import itertools
import logging
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcloud.aws.accounts import ACCOUNT
from localcloud.machines.images import Registry

log = logging.getLogger("localcloud.batch")
ECR = re.compile(rf"{ACCOUNT}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com")

Json = dict[str, Any]
WsgiApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class BatchError(Exception):
    """An answer of Batch other than 200.

    Attributes:
        code: The service model's error code, such as ``ClientException``.
        status: The HTTP status.
    """

    def __init__(self, message: str, code: str = "ClientException", status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def invalid(message: str) -> BatchError:
    """Refuse a request that Batch does not accept, in Batch's own words."""
    return BatchError(f"Error executing request, Exception : {message}")


def left_out(what: str) -> BatchError:
    """Refuse a feature that AWS has and this emulation lacks."""
    return BatchError(f"localcloud does not emulate {what} of AWS Batch")


def refuse_left_out(given: Json, names: Iterable[str], where: str) -> None:
    """Refuse members that AWS supports and this emulation would ignore."""
    for name in names:
        if given.get(name):
            raise left_out(f"{name} in {where}")


@dataclass(frozen=True)
class Settings:
    """How fast the emulated cloud moves, and which resources of this machine it may use. Times are in seconds.

    Attributes:
        state_dir: Scratch folder for machines, file systems and containers.
        port: The gateway's port; each emulated machine also has it at 127.0.0.1.
        reclaim_seconds: Time from a Spot notice to the machine's end; AWS gives 120.
        machine_boot_seconds: Boot time in addition to the time that the machine's user data takes.
        idle_seconds: How long a machine without a child stays.
        batch_transition_seconds: Duration of CREATING, UPDATING and DELETING.
        relation_seconds: How long a queue keeps its relation to a compute environment that was removed from it.
        stop_seconds: Time from SIGTERM to SIGKILL; AWS gives 30.
        time_scale: Seconds here per second of the limits that a caller sets (attempt duration, update policy, state
            time limits).
        max_children: Most concurrent processes on this machine, whatever the compute environments allow.
        submit_rate: SubmitJob calls per second.
        log_stream_rate: CreateLogStream calls per second.
        stockout: Machine types that EC2 is out of; SPOT for all of that market.
        unpullable: Images that the registry refuses.
        joins: False keeps new machines from ever joining their cluster.
        namespaces: False runs children as plain processes even where namespaces would work.
        image_paths: Folders that are part of every image, even if they are under /tmp.
    """

    state_dir: Path
    port: int
    reclaim_seconds: float = 8
    machine_boot_seconds: float = 0.2
    idle_seconds: float = 2
    batch_transition_seconds: float = 0.3
    relation_seconds: float = 3
    stop_seconds: float = 5
    time_scale: float = 1
    max_children: int = 16
    submit_rate: int = 50
    log_stream_rate: int = 50
    stockout: Sequence[str] = ()
    unpullable: Sequence[str] = ()
    joins: bool = True
    namespaces: bool = True
    image_paths: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Host:
    """What Batch needs from the cloud around it.

    Attributes:
        app: The whole AWS endpoint as a WSGI app. Children reach it inside their machine's network.
        authorize: (role ARN, action, resource ARN, region, further condition keys) → whether a session of that role
            may do it.
    """

    app: WsgiApp
    authorize: Callable[..., bool]


class Core:
    """One lock for all state, timers that run under it, and a pool for work that must not hold it (boot, start)."""

    def __init__(self, settings: Settings, host: Host) -> None:
        self.settings = settings
        self.host = host
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.stopped = False
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._pool = ThreadPoolExecutor(8, "batch")
        self.registry = Registry(settings.state_dir / "images", ECR)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Run ``action`` under the lock, ``seconds`` from now."""
        with self.lock:
            heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), action))
            self.changed.notify_all()

    def run_due(self) -> float:
        """Run the timers that are due, and return the seconds until the next one (at most 0.5)."""
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()
        return min(0.5, self._timers[0][0] - time.monotonic()) if self._timers else 0.5

    def background(self, action: Callable[[], None]) -> None:
        """Run ``action`` without the lock, in a helper thread, and log what it raises."""

        def run() -> None:
            try:
                action()
            except Exception:
                log.error("a background step of Batch failed:\n%s", traceback.format_exc())

        if not self.stopped:
            self._pool.submit(run)

    def stop(self) -> None:
        """Start no more work."""
        with self.lock:
            self.stopped = True
            self.changed.notify_all()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.registry.close()

    def join(self) -> None:
        """Wait for the work that had begun: a machine that boots still writes to its disk."""
        self._pool.shutdown()


def arn(region: str, kind: str, name: str) -> str:
    """Return the ARN of a Batch resource, such as one of kind ``job-queue``."""
    return f"arn:aws:batch:{region}:{ACCOUNT}:{kind}/{name}"


def now_ms() -> int:
    """Milliseconds since the epoch, Batch's unit."""
    return int(time.time() * 1000)
