"""Named inputs on a machine: each is fetched once, and read by all items of the jobs that name it.

A worker holds a shared lock on each input of the jobs that it knows. An input without a lock stays for the next job,
until there is no room for another one.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from tidemill.errors import CallerError, DamagedError, StoreDeniedError, StoreMissingError
from tidemill.inputs import Source, read_source
from tidemill.removal import remove
from tidemill.store import Store, Stores
from tidemill.tree import fetch_tree
from tidemill.worker.items.staging import SPARE_BYTES, file_name
from tidemill.worker.machine.machine_folder import MachineFolder, NotReadyError, StoppedError
from tidemill.worker.machine.stop import Stop
from tidemill.worker.output import log

_FILES = "files"


class InputError(NotReadyError):
    """A named input cannot be fetched."""


class LockedInput(NamedTuple):
    """A named input that is on this machine as long as `lock`, a file descriptor, is open; None where nothing removes
    it."""

    path: Path
    lock: int | None


class InputCache:
    """The machine's named inputs, in a folder that its workers share."""

    def __init__(self, cache: Path, store: Store, stores: Stores, stop: Stop) -> None:
        self._folder = MachineFolder(cache, "inputs", stop)
        self._store, self._stores, self._stop = store, stores, stop

    def ready(self, reader: str, inputs: Mapping[str, str]) -> dict[str, LockedInput]:
        """Have the inputs of a round of a job (`task.reader`) on this machine; those of this machine's own file system
        stay where they are.

        Raises:
            InputError: One of them cannot be fetched, or there is no room for it.
            StoppedError: The worker was stopped.
            StoreError: The store did not answer.
        """
        held: dict[str, LockedInput] = {}
        try:
            for name, uri in inputs.items():
                held[name] = self._ready(reader, name, uri)
        except BaseException:
            for one in held.values():
                release(one)
            raise
        return held

    def _ready(self, reader: str, name: str, uri: str) -> LockedInput:
        if uri.startswith("file://") and self._store.uri.startswith("file://"):
            path = Path(unquote(uri.removeprefix("file://")))
            if not path.exists():
                raise InputError(f"input {name}: {path} does not exist any more.")
            return LockedInput(path, None)
        self._folder.open()
        try:
            source = read_source(self._stores, self._store, uri)
            return self._fetched(reader, name, uri, source)
        except InterruptedError:
            raise StoppedError from None
        except (StoreMissingError, StoreDeniedError, DamagedError, CallerError) as error:
            raise InputError(f"input {name} cannot be fetched: {error}") from None
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise InputError(f"input {name}: the disk is full. {error.strerror}.") from None
            raise

    def _fetched(self, reader: str, name: str, uri: str, source: Source) -> LockedInput:
        key = hashlib.sha256(f"{uri} {'' if source.lasting else reader}".encode()).hexdigest()[:32]
        folder, lock_path = self._folder.root / key, self._folder.root / f"{key}.lock"
        files = source.tree.files
        while True:
            # Shared first: an exclusive lock is not given while it is held.
            lock = self._folder.take(lock_path, fcntl.LOCK_SH)
            if folder.is_dir():
                os.utime(lock_path)
                inside = folder / _FILES
                return LockedInput(inside / file_name(files[0].path) if source.single else inside, lock)
            os.close(lock)
            with self._folder.alone(lock_path) as alone:
                if alone and not folder.is_dir():
                    self._fetch(name, source, folder)
                    log(
                        "input fetched",
                        job=reader.partition("/")[0],
                        input=name,
                        bytes=source.tree.size,
                        files=len(files),
                    )

    def _fetch(self, name: str, source: Source, folder: Path) -> None:
        self._make_room(name, source.tree.size)
        # The files that a worker fetched before it died stay: the rest is fetched.
        part = folder.with_name(f"{folder.name}.part")
        if source.single:
            file = source.tree.files[0]
            (part / _FILES).mkdir(parents=True, exist_ok=True)
            target = part / _FILES / file_name(file.path)
            source.store.download(file.object, target, lambda: self._stop.raised, self._room())
        else:
            fetch_tree(source.store, source.tree, part / _FILES, stop=lambda: self._stop.raised)
        part.rename(folder)
        _read_only(folder / _FILES)

    def _room(self) -> int:
        return shutil.disk_usage(self._folder.root).free - SPARE_BYTES

    def _make_room(self, name: str, size: int) -> None:
        """Remove inputs that no job needs, the one that was used longest ago first, until there is room."""
        for lock_path in sorted(self._folder.root.glob("*.lock"), key=lambda path: path.stat().st_mtime):
            if size <= self._room():
                return
            with self._folder.alone(lock_path) as alone:
                if alone:
                    remove(lock_path.with_suffix(""))
                    remove(lock_path.with_suffix(".part"))
        if size > self._room():
            raise InputError(
                f"input {name} has {size / 2**30:.1f} GiB, and this machine has {max(0, self._room()) / 2**30:.1f} GiB "
                "left for it. Ask the stack's owner for more scratch_gib."
            )


def release(held: LockedInput) -> None:
    """The input is not needed any more."""
    if held.lock is not None:
        os.close(held.lock)


def _read_only(folder: Path) -> None:
    for above, _, files in os.walk(folder, topdown=False):
        for name in files:
            os.chmod(os.path.join(above, name), 0o444)
        os.chmod(above, 0o555)
