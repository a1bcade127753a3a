"""Where Tidemill keeps files of a user on this machine, and how it replaces one."""

from __future__ import annotations

import atexit
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from tidemill.errors import CallerError
from tidemill.removal import remove


def cache_folder() -> Path:
    """The user's cache folder for Tidemill. What is in it may be lost at any time."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidemill"


def config_folder() -> Path:
    """The user's config folder for Tidemill."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "tidemill"


def local_scratch() -> Path:
    """The folder of this user's runs on this machine: their workers, unpacked code, and clients' temporary files.

    Raises:
        CallerError: It belongs to another user, who could change what runs.
    """
    folder = Path(os.environ.get("TIDEMILL_SCRATCH") or Path(tempfile.gettempdir(), f"tidemill-{os.getuid()}"))
    with suppress(OSError):
        if folder.lstat().st_uid not in (0, os.getuid()):
            fix = "Name a folder of yours in the variable TIDEMILL_SCRATCH."
            raise CallerError(f"{folder} belongs to another user, who could change what runs there.", fix)
    return folder


def is_ours_alone(folder: Path) -> bool:
    """True if it is a folder, no link, that belongs to this user, and that no other user may write to."""
    with suppress(OSError):
        status = folder.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return False


def temporary_folder(kind: str) -> Path:
    """A new folder, which the caller removes. If this process is killed before, the next one that asks for a folder
    removes it."""
    if not _folder_of_this_process().is_dir():
        _folder_of_this_process.cache_clear()
    return Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=_folder_of_this_process()))


@contextmanager
def while_needed(kind: str) -> Iterator[Path]:
    """A temporary folder for a block."""
    folder = temporary_folder(kind)
    try:
        yield folder
    finally:
        remove(folder)


@cache
def _folder_of_this_process() -> Path:
    """A folder that is locked as long as this process or a fork of it lives; those of processes that have ended go."""
    clients = local_scratch() / "clients"
    clients.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_ours_alone(clients):
        raise CallerError(f"{clients} is not a folder that only you may write to.", f"Remove it: rm -r {clients}.")
    with one_at_a_time(clients):
        for left in clients.iterdir():
            with suppress(OSError):
                os.close(hold(left))
                remove(left)
        folder = Path(tempfile.mkdtemp(dir=clients))
        hold(folder)
    atexit.register(_remove_own, folder, os.getpid())
    return folder


def _remove_own(folder: Path, process: int) -> None:
    if os.getpid() == process:
        remove(folder)


def hold(folder: Path) -> int:
    """Lock a folder, and return its file descriptor; `OSError` if a process holds it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file under another name, then put it in its place: a reader sees the old one or the new one, whole.

    Args:
        mode: Without it only the user may read the file.

    Raises:
        OSError: It cannot be written. The old one is unchanged.
    """
    handle, name = tempfile.mkstemp(prefix=_half_written(path), dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def remove_half_written(path: Path) -> None:
    """Remove the contents of a file that killed processes have left. The caller keeps others from writing it."""
    for left in path.parent.glob(f"{_half_written(path)}*"):
        left.unlink(missing_ok=True)


def _half_written(path: Path) -> str:
    """The beginning of the names of a file's contents before they are in its place."""
    return f".{path.name}-"


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Held by one process of those that change a file of a folder, from the last look at it to its replacement."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        # NFS locks no folder; the last look alone is then what there is.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
