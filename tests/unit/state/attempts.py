"""Attempts on an item with state, in this process, and what programs do in a state folder."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tidemill import layout
from tidemill.state import Saver, Snapshot, Snapshots, choose, restore, scan
from tidemill.state.mark import TICK_NS
from tidemill.store import Store

JOB = "t-00000000"


class Attempt:
    """An attempt on item 0, with its folder."""

    def __init__(self, store: Store, folder: Path, name: str, round_: int = 0) -> None:
        self.snapshots, self.folder = Snapshots(store, JOB, 0), folder
        self.recent = self.snapshots.recent()
        self.claim = self.snapshots.claim(name, round_, "", self.recent[0] if self.recent else None)
        self.saver = Saver(self.snapshots, folder)

    def restore(self, room: Callable[[], int | None] = lambda: None) -> Snapshot | None:
        found = restore(
            self.snapshots.store,
            choose([self.claim, *self.recent]),
            self.folder,
            stop=lambda: False,
            room=room,
            note=lambda text: None,
        )
        self.saver.restored(found)
        return found

    def save(self, **files: bytes) -> Snapshot:
        for name, data in files.items():
            (self.folder / name).write_bytes(data)
        return self.saver.save(scan(self.folder), lambda: False)


DAY = 86_400.0


class Expiring:
    """A store that deletes what was written more than some days ago, on a clock that a test turns."""

    def __init__(self, folder: Path, days: float, patch_time: Any) -> None:
        self.store, self.now = Store.open(folder.as_uri()), 1e9
        self._folder, self._days = folder, days
        patch_time(time=lambda: self.now)

    def pass_days(self, days: float) -> None:
        """What is too old then goes."""
        files = list(self._dated())
        self.now += days * DAY
        for path, at in files:
            if self.now - at > self._days * DAY:
                os.unlink(path)

    def _dated(self) -> Iterator[tuple[str, float]]:
        """Every file, with its date: today's for what was written until now."""
        for top, _, names in os.walk(self._folder):
            for name in names:
                path = os.path.join(top, name)
                at = os.stat(path).st_mtime
                if at > 1.5e9:
                    os.utime(path, (self.now, self.now))
                yield path, min(at, self.now)

    def attempt(self, folder: Path, name: str) -> Attempt:
        """The next attempt, on a machine of its own; its program never touches `tokenizer` again."""
        deque(self._dated(), maxlen=0)
        found = Attempt(self.store, folder, name)
        if found.restore() is None:
            (folder / "tokenizer").write_bytes(b"t" * 1000)
        return found


def content(folder: Path) -> dict[str, bytes]:
    return {path: (folder / path).read_bytes() for path in scan(folder)}


def everything(folder: Path) -> set[str]:
    """Every file, folder and whatever else there is."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def objects(store: Store) -> set[str]:
    return {name for name in store.list(layout.state(JOB, 0)) if "/snapshots/" not in name}


def a_tick(folder: Path) -> None:
    """Let the kernel's clock for files go on by more than a tick."""
    probe = folder.with_name("probe")
    probe.touch()
    began = probe.stat().st_mtime_ns
    while probe.stat().st_mtime_ns <= began + 2 * TICK_NS:
        time.sleep(0.005)
        probe.touch()


def written(folder: Path, path: str, data: bytes = b"1") -> None:
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_bytes(data)


def renamed(folder: Path, old: str, new: str) -> None:
    (folder / old).rename(folder / new)
