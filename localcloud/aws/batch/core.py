"""What the parts of the emulated Batch share: its settings, its errors, one lock, timers and a few helper threads."""

from __future__ import annotations

import heapq
import itertools
import logging
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterable
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
    """An answer of Batch that is not 200.

    Attributes:
        code: As in the service model, such as ``ClientException``.
        status: Of HTTP.
    """

    def __init__(self, message: str, code: str = "ClientException", status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def invalid(message: str) -> BatchError:
    """The refusal of what Batch does not take, in its own words."""
    return BatchError(f"Error executing request, Exception : {message}")


def left_out(what: str) -> BatchError:
    """The refusal of something that AWS has and this emulation does not."""
    return BatchError(f"localcloud does not emulate {what} of AWS Batch")


def refuse_left_out(given: Json, names: Iterable[str], where: str) -> None:
    """Refuse the members that AWS knows and this emulation would ignore."""
    for name in names:
        if given.get(name):
            raise left_out(f"{name} in {where}")


@dataclass(frozen=True)
class Settings:
    """How fast the emulated cloud moves, and what of this machine it may take. Times are in seconds.

    Attributes:
        state_dir: Scratch of machines, file systems and containers lives here.
        port: Of the gateway; each emulated machine has it at 127.0.0.1 too.
        reclaim_seconds: From a Spot notice to the end; AWS gives 120.
        machine_boot_seconds: Added to what a machine's user data takes.
        idle_seconds: After which a machine without a child goes away.
        batch_transition_seconds: Of CREATING, UPDATING and DELETING.
        relation_seconds: For which a queue keeps a compute environment after it was moved away.
        stop_seconds: From SIGTERM to SIGKILL; AWS gives 30.
        time_scale: Seconds here for one second of the limits that a caller gives (attempt duration, update policy,
            state time limits).
        max_children: Processes at once on this machine, whatever the compute environments would hold.
        submit_rate: SubmitJob calls a second.
        log_stream_rate: CreateLogStream calls a second.
        namespaces: False runs children as plain processes even where namespaces would work.
        image_paths: Folders that are part of every image, also where they lie under /tmp.
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
    namespaces: bool = True
    image_paths: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Host:
    """What Batch needs of the cloud around it.

    Attributes:
        app: The whole AWS endpoint as a WSGI app; children reach it inside their machine's network.
        authorize: (role ARN, action, resource ARN, region) → whether a session of that role may do it.
    """

    app: WsgiApp
    authorize: Callable[[str, str, str, str], bool]


class Core:
    """One lock for all state, timers that run under it, and a pool for what must not hold it (boot, start)."""

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
        """Run the timers that are due; returns the seconds until the next one (at most 0.5)."""
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()
        return min(0.5, self._timers[0][0] - time.monotonic()) if self._timers else 0.5

    def background(self, action: Callable[[], None]) -> None:
        """Run ``action`` without the lock, in a helper thread; what it raises is logged."""

        def run() -> None:
            try:
                action()
            except Exception:
                log.error("a background step of Batch failed:\n%s", traceback.format_exc())

        if not self.stopped:
            self._pool.submit(run)

    def stop(self) -> None:
        """Begin nothing more."""
        with self.lock:
            self.stopped = True
            self.changed.notify_all()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.registry.close()


def arn(region: str, kind: str, name: str) -> str:
    """ARN of a Batch resource, such as kind ``job-queue``."""
    return f"arn:aws:batch:{region}:{ACCOUNT}:{kind}/{name}"


def now_ms() -> int:
    """Milliseconds since the epoch, as Batch counts."""
    return int(time.time() * 1000)
