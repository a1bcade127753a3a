"""Slots: what one of the items that run side by side has to itself, and how many of them there is room for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tidemill.capacity import fitting
from tidemill.descriptor import Resources
from tidemill.machine import Capacity
from tidemill.removal import clear, remove
from tidemill.worker.machine.scratch import empty_folder, is_ours

GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"


@dataclass
class Slot:
    """A slot of a worker.

    Attributes:
        env: Variables that its programs see.
        current: Index of the item that runs in it now, or that ran in it when the worker was stopped.
        job: The job that used it last; programs of that job may stay loaded in it.
        chunk: The chunk whose items used it last.
        gpus: Its own while it has a job.
    """

    number: int
    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    current: int | None = None
    job: object = None
    chunk: object = None
    gpus: tuple[str, ...] = ()
    _results: list[Path] = field(default_factory=list)
    """Output folders that nothing is uploaded from now."""
    _made: int = 0

    def results(self) -> Path:
        """An empty output folder, in a folder of its own: others may still be uploaded from. The caller gives it back
        with `give_back`."""
        if not self._results:
            self._made += 1
            self._results.append(self.folder / f"results-{self._made}" / "output")
        results = self._results.pop()
        if not is_ours(results.parent):
            remove(results.parent)
        return empty_folder(results, self.folder)

    def give_back(self, results: Path) -> None:
        """Nothing is uploaded from an output folder any more; what is in it is removed. From any thread."""
        clear(results)
        self._results.append(results)

    def empty(self, name: str) -> Path:
        """A folder of the slot, made or emptied."""
        return empty_folder(self.folder / name, self.folder)


class SlotPool:
    """The slots of a worker: a fixed number, or as many as a machine has CPUs, memory and GPUs for.

    On a machine, items of different jobs run side by side as long as all of them together fit. An item that is larger
    than the machine runs alone. `close` ends what is loaded in a slot; the worker itself takes `worker_mib`. Of a fixed
    number, each has `slot_mib`: an item with more takes several; 0 where that is not counted.
    """

    def __init__(
        self,
        of: int | Capacity,
        make: Callable[[int], Slot],
        close: Callable[[Slot], None],
        worker_mib: int = 0,
        slot_mib: int = 0,
    ) -> None:
        self._of, self._make, self._close = of, make, close
        self._worker_mib, self._slot_mib = worker_mib, slot_mib
        self.slots: list[Slot] = []
        self._free: list[Slot] = []
        self._busy: dict[int, Resources] = {}

    @property
    def busy(self) -> bool:
        return bool(self._busy)

    @property
    def most_memory_mib(self) -> int:
        """Memory that an item can have when there is nothing else; 0 where that is not counted."""
        if isinstance(self._of, int):
            return self._of * self._slot_mib
        return self._of.memory_mib - self._worker_mib

    def _takes(self, item: Resources) -> int:
        """How many of a fixed number of slots an item takes."""
        return max(1, -(-item.memory_mib // self._slot_mib)) if self._slot_mib else 1

    def count(self, item: Resources) -> int:
        """How many such items run side by side when there is nothing else."""
        return self._of // self._takes(item) if isinstance(self._of, int) else self._of.slots(item, self._worker_mib)

    def left(self, item: Resources) -> int:
        """How many more such items could start now."""
        if isinstance(self._of, int):
            return (self._of - sum(map(self._takes, self._busy.values()))) // self._takes(item)
        if not self._busy:
            return self.count(item)
        used = self._busy.values()
        return fitting(
            self._of.cpus - sum(r.cpus for r in used),
            self._of.memory_mib - self._worker_mib - sum(r.memory_mib for r in used),
            len(self._of.gpus) - sum(r.gpus for r in used),
            item,
        )

    def take(self, job: object, item: Resources) -> Slot | None:
        """A slot for an item of a job, one that the job has used before if there is any; None when there is no room.

        What other jobs have left loaded in free slots is ended: its memory and GPUs are counted as free.
        """
        if self.left(item) < 1:
            return None
        for other in [slot for slot in self._free if slot.job not in (None, job)]:
            self._close(other)
            other.job, other.gpus = None, ()
        slot = next((slot for slot in reversed(self._free) if slot.job == job), None) or self._another()
        if slot in self._free:
            self._free.remove(slot)
        if slot.job != job:
            slot.job = job
            self._share_gpus(slot, item.gpus)
        self._busy[slot.number] = item
        return slot

    def _another(self) -> Slot:
        if self._free:
            return self._free[-1]
        self.slots.append(self._make(len(self.slots)))
        return self.slots[-1]

    def _share_gpus(self, slot: Slot, count: int) -> None:
        """Give a slot GPUs of its own; a container's only slot has them all."""
        slot.env.pop(GPU_VARIABLE, None)
        if count and isinstance(self._of, Capacity) and self._of.gpus:
            held = {name for other in self.slots for name in other.gpus}
            slot.gpus = tuple(name for name in self._of.gpus if name not in held)[:count]
            slot.env[GPU_VARIABLE] = ",".join(slot.gpus)

    def give(self, slot: Slot) -> None:
        """An item of the slot has ended; what is loaded in it stays."""
        del self._busy[slot.number]
        self._free.append(slot)

    def close(self) -> None:
        for slot in self.slots:
            self._close(slot)
