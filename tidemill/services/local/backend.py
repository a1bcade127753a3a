"""This machine as a pipeline: `tidemill run` on a store of files, seen by the same commands as a cloud's.

Nothing runs between runs. A run holds a lock on its job, which the kernel drops when the last of its processes has
ended, however it ended; the lock tells the job's state.
"""

from __future__ import annotations

import json
import platform
import shlex
from collections.abc import Sequence
from pathlib import Path

from tidemill import layout
from tidemill.capacity import usable_memory_mib
from tidemill.clouds.account import Account
from tidemill.clouds.local.account import LocalAccount
from tidemill.clouds.local.desk import Desk, folder_of
from tidemill.descriptor import SPEC_VERSION, Descriptor, Image, Machine, Queue, Resources, Rung
from tidemill.services.backend import Array, ArrayState, Backend, QueueState, Shape
from tidemill.services.local import SERVICE
from tidemill.store import Store

QUEUE = "local"
CHUNKS_A_CPU = 16
"""Chunks per CPU: enough that no CPU idles for long at the end."""
DEFAULT_FOLDER = ".tidemill"
"""The job store of `tidemill run`, in the folder in which it is typed."""


def describe_machine(store: str, cpus: int, memory_mib: int, gpus: int, workers: int) -> Descriptor:
    """A descriptor of what may be used of this machine, with so many workers side by side."""
    machine = Machine(type=platform.node() or "localhost", cpus=cpus, memory_mib=memory_mib, gpus=gpus)
    item = Resources(cpus=1, memory_mib=max(64, usable_memory_mib(SERVICE, machine) // cpus), gpus=0)
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
    existing = store.find(layout.DESCRIPTOR)
    if existing is None and folder_of(descriptor.store).name == DEFAULT_FOLDER:
        store.create(".gitignore", b"*\n")
    if existing != data:
        store.put(layout.DESCRIPTOR, data)
    return store


def run_command(store: str, job: str) -> str:
    folder = folder_of(store)
    where = [] if folder == Path(DEFAULT_FOLDER).absolute() else ["--store", str(folder)]
    return shlex.join(["tidemill", "run", "--job", job, *where])


class LocalBackend(Backend):
    """Local runs, as the client sees a queue."""

    service = SERVICE

    def __init__(self, descriptor: Descriptor) -> None:
        self._store, self.account = descriptor.store, LocalAccount(descriptor)

    def enqueue(self, shape: Shape, arrays: Sequence[Array]) -> None:
        """Hands over nothing: the next `tidemill run` works on the round in the store."""

    def describe(self, queue: Queue, job: str, round_: int | None = None) -> list[ArrayState]:
        """The arrays of a job's rounds: running while a run holds the job's lock, ended when none does."""
        desk = Desk(self._store, job)
        alive, arrays = self.works_on(job), []
        origin = desk.origin() if alive else None
        workers = origin.workers if origin else 1
        # Only the store knows what is enqueued here.
        for path in sorted((desk.folder.parent / "rounds").glob("*.json"), key=lambda path: int(path.stem)):
            if round_ not in (None, int(path.stem)):
                continue
            for array in json.loads(path.read_bytes())["arrays"]:
                size = array.get("count") or array.get("rows") or len(array["chunks"])
                states = {"running": min(workers, size)} if alive and not arrays else {}
                arrays.append(ArrayState(array["name"], array["name"], size, states, not alive, path.stat().st_mtime))
        return arrays

    def works_on(self, job: str) -> bool:
        """True if a run works on a job."""
        return Desk(self._store, job).alive

    def failed_children(self, array: ArrayState) -> dict[int, str]:
        # Once a run has ended, every chunk without a record is unfinished; the ledger lists them.
        return dict.fromkeys(range(array.size), "not running") if array.ended else {}

    def cancel(self, arrays: Sequence[ArrayState], reason: str) -> int:
        """Ends nothing: the workers of a run see the tombstone."""
        return sum(not array.ended for array in arrays)

    def queue_states(self, queues: dict[str, Queue]) -> dict[str, QueueState]:
        return {name: QueueState(True, True, "this machine") for name in queues}


def open_backend(descriptor: Descriptor, store: Store, account: Account) -> LocalBackend:
    return LocalBackend(descriptor)
