"""A queue as bad as AWS Batch may be: arrays on disk, children that are killed, reclaimed and delivered twice.

`QueueFolder` is the client's view; any process may open one. `Batch` starts the workers. A child has ten attempts and
the retry rules of the job definition. Other tests cover Batch's own answers.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.chaos.bucket import NAME, Bucket
from tidemill.clouds.account import Account, LogLine, LogSearch
from tidemill.descriptor import Queue, WorkerExit
from tidemill.ledger import Round
from tidemill.services.backend import Array, ArrayState, Backend, QueueState, Shape
from tidemill.services.batch import SERVICE as BATCH
from tidemill.services.batch.backend import environment_of
from tidemill.worker.settings import OURS

ATTEMPTS = 10
ELEVEN = 11
NOTICE_SECONDS = 20.0
"""Stands for the two minutes between a notice and the end of the machine."""
KILLS = 2
"""How often a chunk is killed by chance; a third kill would make its item poison."""
SKEWS = (0.0, 0.0, 600.0, -600.0)
MARK = "CHAOS_RUN"
TICK = 0.01
NURSERY = "from tests.chaos.nursery import main; main()"


class QueueFolder(Backend, Account):
    """A queue in a folder, as the client sees it."""

    service = replace(BATCH, most_dependencies=0)

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.account = self
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def user(self) -> str:
        return "ada"

    def enqueue(self, shape: Shape, arrays: Sequence[Array]) -> None:
        for array in arrays:
            body = {"name": array.name, "size": array.size, "environment": environment_of(array.address)}
            write(self.folder / f"{time.time_ns()}~{array.name}.array", body)

    def describe(self, queue: Queue, job: str, round_: int | None = None) -> list[ArrayState]:
        found = []
        for path in sorted(self.folder.glob(f"*~{job}-r{'' if round_ is None else f'{round_}-a'}*.array")):
            array = json.loads(path.read_bytes())
            with suppress(FileNotFoundError):
                array |= json.loads(path.with_suffix(".state").read_bytes())
            states = Counter(array.get("children", ["waiting"] * array["size"]))
            ended = all(state in ("succeeded", "failed") for state in states)
            at = int(path.stem.partition("~")[0]) / 1e9
            found.append(ArrayState(array["name"], path.stem, array["size"], dict(states), ended, at))
        return found

    def failed_children(self, array: ArrayState) -> dict[int, str]:
        try:
            children = json.loads((self.folder / f"{array.id}.state").read_bytes())["children"]
        except FileNotFoundError:
            return {}
        return {index: "gave up" for index, state in enumerate(children) if state == "failed"}

    def cancel(self, arrays: Sequence[ArrayState], reason: str) -> int:
        open_ = [array for array in arrays if not array.ended]
        for array in open_:
            (self.folder / f"{array.id}.cancel").touch()
        return len(open_)

    def logs(self, search: LogSearch) -> Iterator[LogLine]:
        return iter(())

    def queue_states(self, queues: dict[str, Queue]) -> dict[str, QueueState]:
        return dict.fromkeys(queues, QueueState(True, True, "enabled, valid"))


def write(path: Path, body: dict[str, Any]) -> None:
    """Write a file so that no reader sees it incomplete."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(body))
    partial.rename(path)


@dataclass
class Child:
    """A child of an array."""

    array: Path
    environment: dict[str, str]
    index: int
    chunk: int
    state: str = "waiting"
    delivery: int = 0
    cancelled: bool = False


@dataclass
class Container:
    """A running worker and its fate."""

    name: str
    child: Child
    delivery: int
    fate: str
    started: float
    due: float
    killed_at: float | None = None


@dataclass
class Chances:
    """The chances that a delivery goes wrong."""

    kill: float = 0.15
    reclaim: float = 0.15
    twice: float = 0.10


@dataclass
class Batch:
    """Runs the content of the folder, `slots` containers at a time.

    `victim` is the chunk that is reclaimed eleven times; chunks in `calm` are left alone.
    """

    folder: Path
    bucket: Bucket
    scratch: Path
    seed: int
    slots: int = 8
    chances: Chances = field(default_factory=Chances)
    victim: int = -1
    calm: frozenset[int] = frozenset()
    worker_seconds: float = 150.0
    nursery_program: str = NURSERY
    events: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    """Violations found; there must be none."""

    def __post_init__(self) -> None:
        self._arrays: dict[Path, list[Child]] = {}
        self._running: dict[str, Container] = {}
        self._waiting: list[Child] = []
        self._ended: list[tuple[str, int]] = []
        self._kills: Counter[tuple[str, int]] = Counter()
        self._reclaims = 0
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._number = 0
        self.error: BaseException | None = None

    # ---- its life -----------------------------------------------------------------------------------------------

    @contextmanager
    def running(self, scratch_mib: int) -> Iterator[Batch]:
        """Run until the end of the block; then kill everything that is left.

        Args:
            scratch_mib: Size of the scratch disk.
        """
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.nursery = subprocess.Popen(
            [*own_disk(self.scratch, scratch_mib), sys.executable, "-c", self.nursery_program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        reader = threading.Thread(target=self._read)
        thread = threading.Thread(target=self._work)
        reader.start()
        thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            thread.join(timeout=60)
            assert self.nursery.stdin is not None
            self.nursery.stdin.close()
            try:
                self.nursery.wait(timeout=60)
            finally:
                self.nursery.kill()
                for pid in marked(str(self.scratch)):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                reader.join(timeout=60)

    @property
    def scratch_as_seen(self) -> Path:
        """The scratch disk seen from outside the nursery's mounts."""
        return Path(f"/proc/{self.nursery.pid}/root{self.scratch}")

    @property
    def idle(self) -> bool:
        """Whether nothing is running or waiting."""
        with self._lock:
            return not self._running and not self._waiting

    def _order(self, **order: Any) -> None:
        assert self.nursery.stdin is not None
        self.nursery.stdin.write(json.dumps(order).encode() + b"\n")
        self.nursery.stdin.flush()

    def _read(self) -> None:
        assert self.nursery.stdout is not None
        for line in self.nursery.stdout:
            said = json.loads(line)
            self._ended.append((said["ended"], said["code"]))

    def _work(self) -> None:
        try:
            while not self._stop.wait(TICK):
                with self._lock:
                    self._take_in()
                    changed = self._settle() | self._start()
                    self._strike()
                    if changed:
                        self._publish()
            for container in self._running.values():
                self._order(kill=container.name, signal=int(signal.SIGKILL))
        except BaseException as error:
            self.error = error
            raise

    def _publish(self) -> None:
        for path, children in self._arrays.items():
            write(path.with_suffix(".state"), {"children": [child.state for child in children]})

    # ---- children -----------------------------------------------------------------------------------------------

    def _take_in(self) -> None:
        for path in sorted(self.folder.glob("*.array")):
            if path not in self._arrays:
                array = json.loads(path.read_bytes())
                self._arrays[path] = children = self._children(path, array["environment"], array["size"])
                self._waiting += children
        for path in self.folder.glob("*.cancel"):
            self._cancel(self._arrays.get(path.with_suffix(".array"), []))
            path.unlink()

    def _children(self, path: Path, environment: dict[str, str], size: int) -> list[Child]:
        job, number = environment["TIDEMILL_JOB"], environment["TIDEMILL_ROUND"]
        round_ = Round.model_validate_json(self.bucket.objects[f"jobs/{job}/rounds/{number}.json"])
        array = round_.arrays[int(environment["TIDEMILL_ARRAY"])]
        return [Child(path, environment, index, array.chunk(index)) for index in range(size)]

    def _cancel(self, children: list[Child]) -> None:
        for child in children:
            child.cancelled = True
            if child in self._waiting:
                self._waiting.remove(child)
                child.state = "failed"
        for container in self._running.values():
            if container.child in children:
                self._order(kill=container.name, signal=int(signal.SIGTERM))

    def _settle(self) -> bool:
        changed = False
        while self._ended:
            name, code = self._ended.pop(0)
            changed = True
            container = self._running.pop(name)
            child = container.child
            self.events[f"exit {code}"] += 1
            if code == WorkerExit.DONE:
                self._acknowledged(child)
                child.state = "succeeded"
            elif code > 0 and code not in list(WorkerExit):
                self.faults.append(f"{name}, chunk {child.chunk}, ended with exit code {code}: {self._said(name)}")
            if child.state == "succeeded" or any(other.child is child for other in self._running.values()):
                continue
            again = not child.cancelled and code != WorkerExit.STOPPED and child.delivery < ATTEMPTS
            child.state = "waiting" if again else "failed"
            if again:
                self._waiting.insert(0, child)
            elif not child.cancelled:
                self.events["given up by the queue"] += 1
        return changed

    def _acknowledged(self, child: Child) -> None:
        job, number = child.environment["TIDEMILL_JOB"], child.environment["TIDEMILL_ROUND"]
        name = f"jobs/{job}/r{number}/done/{child.chunk % 16:x}/{child.chunk}.jsonl"
        if name not in self.bucket.objects:
            self.faults.append(f"chunk {child.chunk} of round {number} was acknowledged without a record")

    # ---- containers ---------------------------------------------------------------------------------------------

    def _start(self) -> bool:
        changed = False
        while self._waiting and len(self._running) < self.slots:
            child = self._waiting.pop(0)
            child.state = "running"
            fate = self._fate(child)
            self._run(child, fate)
            if fate == "twice":
                self._run(child, "twice")
            changed = True
        return changed

    def _fate(self, child: Child) -> str:
        number = child.environment["TIDEMILL_ROUND"]
        dice = random.Random(f"{self.seed} {number} {child.chunk} {child.delivery}").random()
        if child.chunk == self.victim and self._reclaims < ELEVEN:
            return "reclaim"
        if child.chunk in self.calm or child.chunk == self.victim:
            return "well"
        if dice < self.chances.kill and self._kills[number, child.chunk] < KILLS:
            self._kills[number, child.chunk] += 1
            return "kill"
        dice -= self.chances.kill
        if 0 <= dice < self.chances.reclaim:
            return "reclaim"
        return "twice" if 0 <= dice - self.chances.reclaim < self.chances.twice else "well"

    def _run(self, child: Child, fate: str) -> None:
        child.delivery += 1
        self._number += 1
        name = f"c{self._number}"
        dice = random.Random(f"{self.seed} {child.chunk} {child.delivery} {fate}")
        due = time.monotonic() + dice.uniform(0.05, 0.8)
        self._running[name] = Container(name, child, child.delivery, fate, time.monotonic(), due)
        self.events[f"fate {fate}"] += 1
        skew = dice.choice(SKEWS)
        self.events["skewed clocks"] += skew != 0
        log = self.folder / "logs"
        log.mkdir(exist_ok=True)
        self._order(start=name, env=self._environment(child, name), skew=skew, log=str(log / f"{name}.jsonl"))

    def _environment(self, child: Child, name: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/",
            MARK: str(self.scratch),
            "TIDEMILL_STORE": f"s3://{NAME}",
            "TIDEMILL_SCRATCH": str(self.scratch),
            "TIDEMILL_RECLAIM_POLL_SECONDS": "0.1",
            "TIDEMILL_DRAIN_SECONDS": "0.05",
            "TIDEMILL_NOTICE": str(self._notice(name)),
            "AWS_BATCH_JOB_ID": f"{child.array.stem}:{child.index}",
            "AWS_BATCH_JOB_ARRAY_INDEX": str(child.index),
            "AWS_BATCH_JOB_ATTEMPT": str(child.delivery),
            **self.bucket.environment,
            **{key: value for key, value in child.environment.items() if key.startswith(OURS)},
        }

    def _notice(self, name: str) -> Path:
        """Where the machine of a container writes its reclaim notice."""
        return self.folder / "logs" / f"{name}.notice"

    def _strike(self) -> None:
        now = time.monotonic()
        for container in self._running.values():
            if now > container.started + self.worker_seconds:
                self._hangs(container)
                container.started = now
            elif container.killed_at is not None and now > container.killed_at + NOTICE_SECONDS:
                # The machine is gone, with everything still on it.
                self._order(kill=container.name, signal=int(signal.SIGKILL))
            elif container.killed_at is None and container.fate in ("kill", "reclaim") and self._is_due(container, now):
                container.killed_at = now
                self._reclaims += container.child.chunk == self.victim
                if container.fate == "kill":
                    self._order(kill=container.name, signal=int(signal.SIGKILL))
                elif container.delivery % 2:
                    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 120))
                    self._notice(container.name).write_text(f'{{"action": "terminate", "time": "{ends}"}}')
                else:
                    self._order(kill=container.name, signal=int(signal.SIGTERM))

    def _hangs(self, container: Container) -> None:
        self._order(kill=container.name, signal=int(signal.SIGUSR1))
        time.sleep(0.5)
        self._order(kill=container.name, signal=int(signal.SIGKILL))
        self.faults.append(
            f"{container.name}, chunk {container.child.chunk}, did not end: {self._said(container.name)}"
        )

    def _said(self, name: str) -> str:
        return (self.folder / "logs" / f"{name}.jsonl").read_text()[-4000:]

    def _is_due(self, container: Container, now: float) -> bool:
        if container.child.chunk != self.victim:
            return now >= container.due
        # The victim is only reclaimed while it works: after the attempt has left its marker.
        env = container.child.environment
        place = f"jobs/{env['TIDEMILL_JOB']}/r{env['TIDEMILL_ROUND']}/attempts/{container.child.chunk}/"
        return bool(self.bucket.keys(f"{place}a{container.delivery}-"))


def own_disk(folder: Path, mib: int) -> list[str]:
    """A command prefix that gives a program a small disk of its own at a folder."""
    script = f'mount -t tmpfs -o size={mib}m,mode=1777 scratch "$0" && exec "$@"'
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--mount", "sh", "-c", script, str(folder)]


def marked(value: str) -> list[int]:
    """Processes of a run, found by its mark in their environment."""
    found, mark = [], f"{MARK}={value}".encode()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
    return found
