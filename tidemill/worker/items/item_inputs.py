"""Inputs of items: each is fetched into a folder of its own, which the next ones use again."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import NamedTuple

from tidemill.removal import clear
from tidemill.worker.items.staging import Staging
from tidemill.worker.items.task import Task
from tidemill.worker.machine.scratch import Scratch


class _Fetch(NamedTuple):
    folder: Path
    file: Future[Path]


class ItemInputs:
    """Fetches inputs of items, and removes them. From any thread, but for an item from one at a time."""

    def __init__(self, staging: Staging, scratch: Scratch) -> None:
        self._staging, self._home = staging, scratch.folder / "inputs"
        self._begun: dict[tuple[str, int, int], _Fetch] = {}
        self._unused: deque[Path] = deque()
        self._numbers = count()

    def begin(self, task: Task) -> Future[Path]:
        """Begin to fetch an item's input, unless that has begun. The future has the local file, or an `ItemError`."""
        key = task.job, task.chunk, task.item.index
        if key not in self._begun:
            folder = self._folder()
            self._begun[key] = _Fetch(folder, self._staging.fetch(task.item.uri, folder, task.stop, task.reader))
        return self._begun[key].file

    def _folder(self) -> Path:
        try:
            return self._unused.pop()
        except IndexError:
            return self._home / str(next(self._numbers))

    def remove(self, task: Task) -> None:
        """Remove an item's input; one that is being fetched, when that is over."""
        fetch = self._begun.pop((task.job, task.chunk, task.item.index), None)
        if fetch is not None:
            fetch.file.cancel()
            fetch.file.add_done_callback(lambda _: self._free(fetch.folder))

    def _free(self, folder: Path) -> None:
        clear(folder)
        self._unused.append(folder)
