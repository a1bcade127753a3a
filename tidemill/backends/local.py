"""This machine as a pipeline: `tidemill run` on a store of files, seen by the same commands as a cloud's.

Nothing runs between runs. A run holds a lock on its job, which the kernel drops when the last of its processes has
ended, however it ended; the lock tells the job's state.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import platform
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from tidemill import layout
from tidemill.backends import Array, ArrayState, Backend, LogLine, LogSearch, QueueState, Shape
from tidemill.capacity import usable_memory_mib
from tidemill.descriptor import SPEC_VERSION, Descriptor, Image, Machine, Queue, Resources, Rung
from tidemill.errors import CallerError
from tidemill.store import Store

QUEUE = "local"
CHUNKS_A_CPU = 16
"""Chunks per CPU: enough that no CPU idles for long at the end."""
DEFAULT_FOLDER = ".tidemill"
"""The job store of `tidemill run`, in the folder in which it is typed."""


def describe_machine(store: str, cpus: int, memory_mib: int, gpus: int, workers: int) -> Descriptor:
    """A descriptor of what may be used of this machine, with so many workers side by side."""
    machine = Machine(type=platform.node() or "localhost", cpus=cpus, memory_mib=memory_mib, gpus=gpus)
    item = Resources(cpus=1, memory_mib=max(64, usable_memory_mib("local", machine) // cpus), gpus=0)
    queue = Queue(
        item=item,
        images={"default": Image(ref="this machine")},
        architecture="arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64",
        machines=[machine],
        capacity=[Rung(market="on_demand", max_cpus=max(cpus, workers * CHUNKS_A_CPU))],
        scratch_gib=1,
    )
    return Descriptor(
        team="local",
        environment="local",
        cloud="local",
        region="local",
        account="local",
        store=store,
        queues={QUEUE: queue},
        max_spec=SPEC_VERSION,
    )


def publish(descriptor: Descriptor) -> Store:
    """Write the descriptor into its store, so that every command works with its URI. Returns the store.

    A new store tells git to leave it alone: it may be in a user's checkout.
    """
    store = Store.open(descriptor.store)
    data = descriptor.model_dump_json(indent=2).encode()
    found = store.find(layout.DESCRIPTOR)
    if found is None and folder_of(descriptor.store).name == DEFAULT_FOLDER:
        store.create(".gitignore", b"*\n")
    if found != data:
        store.put(layout.DESCRIPTOR, data)
    return store


def folder_of(store: str) -> Path:
    """The folder of a ``file://`` store.

    Raises:
        CallerError: It is another kind of store.
    """
    parts = urlsplit(store)
    if parts.scheme != "file" or parts.netloc or not parts.path.startswith("/"):
        raise CallerError.about(
            "store", store, "a URI such as file:///folder", "A local run keeps its store in a folder."
        )
    return Path(unquote(parts.path))


def run_command(store: str, job: str) -> str:
    folder = folder_of(store)
    where = [] if folder == Path(DEFAULT_FOLDER).absolute() else ["--store", str(folder)]
    return shlex.join(["tidemill", "run", "--job", job, *where])


@dataclass(frozen=True)
class Origin:
    """Where a job was first run.

    Attributes:
        folder: The folder in which the command was typed: modules are imported from there.
        python: Interpreter of its functions; None for `python3` on PATH.
        workers: Items side by side in its latest run.
    """

    folder: str
    python: str | None = None
    workers: int = 1


class Desk:
    """A local job's own folder next to its ledger: its run's lock, where it was typed, what its workers printed."""

    def __init__(self, store: str, job: str) -> None:
        self.folder = folder_of(store) / layout.JOBS / job / "local"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def remember(self, origin: Origin) -> None:
        """Note where the job runs from, for a run that continues it."""
        self.logs.mkdir(parents=True, exist_ok=True)
        (self.folder / "origin.json").write_text(json.dumps(asdict(origin)))

    def origin(self) -> Origin | None:
        """Where the job was last run from; None when it never was, or that folder is gone."""
        try:
            found = Origin(**json.loads((self.folder / "origin.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return found if Path(found.folder).is_dir() else None

    def lock(self, wait_seconds: float) -> IO[bytes] | None:
        """Take the job's lock; None when a live run holds it. A run that was just killed still ends its programs, so
        this waits for a while."""
        self.logs.mkdir(parents=True, exist_ok=True)
        file = (self.folder / "lock").open("ab")
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except OSError:
                if time.monotonic() >= deadline:
                    file.close()
                    return None
            time.sleep(0.02)

    @property
    def alive(self) -> bool:
        if not (self.folder / "lock").exists():
            return False
        with (self.folder / "lock").open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
        return False


class LocalBackend(Backend):
    """Local runs, as the client sees a queue."""

    log_late_seconds = 5.0

    def __init__(self, descriptor: Descriptor) -> None:
        self._store = descriptor.store

    def user(self) -> str:
        try:
            return getpass.getuser()
        except (KeyError, OSError):
            return str(os.getuid())

    def enqueue(self, shape: Shape, arrays: Sequence[Array]) -> None:
        """Hands over nothing: the next `tidemill run` works on the round in the store."""

    def describe(self, queue: Queue, job: str, round_: int | None = None) -> list[ArrayState]:
        """The arrays of a job's rounds: running while a run holds the job's lock, ended when none does."""
        desk = Desk(self._store, job)
        alive, found = self.works_on(job), []
        origin = desk.origin() if alive else None
        workers = origin.workers if origin else 1
        # Only the store knows what is enqueued here.
        for path in sorted((desk.folder.parent / "rounds").glob("*.json"), key=lambda path: int(path.stem)):
            if round_ not in (None, int(path.stem)):
                continue
            for array in json.loads(path.read_bytes())["arrays"]:
                size = array.get("count") or array.get("rows") or len(array["chunks"])
                states = {"running": min(workers, size)} if alive and not found else {}
                found.append(ArrayState(array["name"], array["name"], size, states, not alive, path.stat().st_mtime))
        return found

    def works_on(self, job: str) -> bool:
        """Whether a run works on a job."""
        return Desk(self._store, job).alive

    def failed_children(self, array: ArrayState) -> dict[int, str]:
        # Once a run has ended, every chunk without a record is unfinished; the ledger lists them.
        return dict.fromkeys(range(array.size), "not running") if array.ended else {}

    def cancel(self, arrays: Sequence[ArrayState], reason: str) -> int:
        """Ends nothing: the workers of a run see the tombstone."""
        return sum(not array.ended for array in arrays)

    def logs(self, search: LogSearch) -> Iterator[LogLine]:
        desk = Desk(self._store, search.job)
        lines = [line for path in desk.logs.glob("*.jsonl") for line in _lines(path, search)]
        yield from sorted(lines, key=lambda line: (line.at, line.id))

    def queue_states(self, queues: dict[str, Queue]) -> dict[str, QueueState]:
        return {name: QueueState(True, True, "this machine") for name in queues}


def _lines(path: Path, search: LogSearch) -> Iterator[LogLine]:
    hint = (search.text or "").encode()
    with path.open("rb") as file:
        for number, raw in enumerate(file):
            try:
                fields = json.loads(raw) if hint in raw or b"\\" in raw else {}
            except ValueError:
                # The last line of a worker that was killed while it wrote.
                continue
            if fields:
                id_ = f"{path.stem}:{number:09d}"
                line = LogLine(fields.get("at", 0.0), raw.decode().rstrip("\n"), path.stem, fields, id_)
                if search.has(line):
                    yield line
