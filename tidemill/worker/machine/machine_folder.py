"""A folder of the machine that its workers share: the first to come makes what is in it, the others wait for it.

Locks are the kernel's, which drops them when a worker dies.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemill.errors import StoreError
from tidemill.folders import is_ours_alone
from tidemill.removal import remove
from tidemill.worker.machine.stop import Stop

LOCK_LOOK_SECONDS = 0.1


class NotReadyError(Exception):
    """A machine cannot get ready for a job, by the job's own fault. The text tells people why."""


class StoppedError(Exception):
    """The worker was stopped meanwhile."""


class MachineFolder:
    """The folder, `<cache>/<what>-<uid>`: each user has one, because programs run or read what is in it."""

    def __init__(self, cache: Path, what: str, stop: Stop) -> None:
        self.root = cache / f"{what}-{os.getuid()}"
        self._stop = stop

    def open(self) -> None:
        """Make it, and see that only we may write to it."""
        self.root.mkdir(mode=0o755, parents=True, exist_ok=True)
        # Anyone may make a link of this name in a cache that all users share.
        if not is_ours_alone(self.root):
            raise StoreError(f"{self.root} can be written by others, so nothing is put there.", "Remove it.")

    def once(self, folder: Path, make: Callable[[Path], None]) -> None:
        """Let one worker of the machine make a folder."""
        if folder.is_dir():
            return
        with self.locked(folder.with_name(f"{folder.name}.lock")):
            if folder.is_dir():
                return
            part = folder.with_name(f"{folder.name}.part")
            if part.exists():
                # Left by a worker that died.
                remove(part)
            part.mkdir()
            try:
                make(part)
                part.rename(folder)
            except BaseException:
                remove(part)
                raise

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Hold a lock that no other worker holds."""
        lock = self.take(path, fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.close(lock)

    @contextmanager
    def alone(self, path: Path) -> Iterator[bool]:
        """Hold a lock if no other worker does; says whether."""
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                mine = True
            except BlockingIOError:
                mine = False
            yield mine
        finally:
            os.close(file)

    def take(self, path: Path, how: int) -> int:
        """Take a lock, exclusive or shared, as soon as that is possible; returns its file descriptor."""
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            while True:
                try:
                    fcntl.flock(file, how | fcntl.LOCK_NB)
                    return file
                except BlockingIOError:
                    self._stop.wait(LOCK_LOOK_SECONDS)
                    self.check_stop()
        except BaseException:
            os.close(file)
            raise

    def check_stop(self) -> None:
        if self._stop.raised:
            raise StoppedError
