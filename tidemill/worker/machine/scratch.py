"""A worker's own folder on the machine's scratch volume, and its share of the machine's ports.

Containers of a machine share the volume. Each worker holds a lock on its folder, which the kernel drops when it dies,
however it dies; the next worker on the machine removes what the dead left.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

from tidemill.removal import remove
from tidemill.worker.machine.usage import environment_of

FIRST_PORT = 20_000
PORTS_PER_SLOT = 16
PORT_SLOTS = 700
"""20000 to 31199: below the ports that Linux gives to outgoing connections (32768 and up)."""
LOCK = "lock"
BEGINNING_SECONDS = 60.0
"""Age from which an unnamed folder counts as left by a worker that died while making it."""


class Scratch:
    """A worker's folder, with a unique name, on the volume `root`. `cache` is the machine's folder for what is
    fetched once."""

    def __init__(self, root: Path, name: str, cache: str | None = None) -> None:
        self.cache = cache
        self.folder = root / "workers" / name
        self._ports = root / "ports"
        self._locks: list[IO[bytes]] = []
        for shared in (root, self.folder.parent, self._ports):
            _open_to_all(shared)
        self._locks.append(_own(self.folder))
        _sweep(self.folder)

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.folder).free

    def port_base(self) -> int:
        """The first of 16 ports that no other slot on this machine was given."""
        for n in range(PORT_SLOTS):
            lock = _port_lock(self._ports / str(n))
            if lock is not None:
                self._locks.append(lock)
                return FIRST_PORT + n * PORTS_PER_SLOT
        return FIRST_PORT

    def close(self) -> None:
        remove(self.folder)
        for lock in self._locks:
            lock.close()


def empty_folder(path: Path, home: Path) -> Path:
    """Make or empty a folder below `home`. An item may have left anything in place of either."""
    with suppress(OSError), os.scandir(path) as left:
        # A read-only folder, or one behind a link, is created again.
        if next(left, None) is None and os.access(path, os.W_OK | os.X_OK) and not os.path.islink(path):
            return path
    if not is_ours(home):
        remove(home)
    remove(path)
    with suppress(FileNotFoundError):
        # Another user's files cannot be removed here; they go with the worker's folder if possible.
        path.rename(path.with_name(f"{path.name}-{secrets.token_hex(4)}"))
    path.mkdir(parents=True)
    return path


def is_ours(folder: Path) -> bool:
    """True if it is a folder that can be used: an item may have put anything in its place."""
    try:
        return stat.S_ISDIR(os.lstat(folder).st_mode) and os.access(folder, os.R_OK | os.W_OK | os.X_OK)
    except OSError:
        return False


def _open_to_all(folder: Path) -> None:
    """Make a folder that containers of any user share; each removes only its own (as in /tmp)."""
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(PermissionError):
        folder.chmod(0o1777)


def _lock(path: Path, mode: Literal["ab", "rb"] = "ab") -> IO[bytes] | None:
    """The file, locked by us, or None when a live worker holds it."""
    file = path.open(mode)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def _port_lock(path: Path) -> IO[bytes] | None:
    try:
        lock = _lock(path)
    except PermissionError:
        # Made by a container of another user: locking needs no right to write.
        lock = _lock(path, "rb")
    return lock


def _own(folder: Path) -> IO[bytes]:
    """Make a folder that is locked before it gets its name, so that it never looks like a dead worker's."""
    beginning = folder.with_name(f".{folder.name}")
    beginning.mkdir()
    lock = (beginning / LOCK).open("ab")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    beginning.rename(folder)
    return lock


def _sweep(own: Path) -> None:
    for folder in own.parent.iterdir():
        if folder == own or _begins(folder):
            continue
        try:
            lock = _lock(folder / LOCK)
        except OSError:
            continue
        if lock is not None:
            _end_programs(folder)
            remove(folder)
            lock.close()


def _begins(folder: Path) -> bool:
    """True if another worker may be making this folder now."""
    try:
        return folder.name.startswith(".") and time.time() - folder.stat().st_mtime < BEGINNING_SECONDS
    except OSError:
        return True


def _end_programs(folder: Path) -> None:
    """End what a dead worker's programs left running: they carry the name of its folder in their environment."""
    mark = os.fsencode(f"={folder}/")
    for name in os.listdir("/proc") if Path("/proc").is_dir() else []:
        if not name.isdigit() or int(name) == os.getpid():
            continue
        if mark in environment_of(int(name)):
            with suppress(OSError):
                os.kill(int(name), signal.SIGKILL)
