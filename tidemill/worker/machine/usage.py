"""Measures a program: CPU seconds, resident memory, and the processes it started.

Reads ``/proc`` (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html); without it, only the figures of `wait4`
are known.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")
MIB = 1024 * 1024
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PDEATHSIG = 1
_SHARED_SECONDS = 0.2
_OOM_EVENTS = Path("/sys/fs/cgroup/memory.events")
_CHILD_OOM_SCORE = "500"
_END_SECONDS = 30.0


class Process(NamedTuple):
    """A process, as one look at ``/proc`` shows it."""

    pid: int
    parent: int
    session: int
    cpu_seconds: float
    rss_bytes: int
    started: int


class ProcessTable:
    """Every process in sight. One look serves all slots for a fraction of a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen_at = -1.0
        self._processes: dict[int, Process] = {}

    def look(self, *, fresh: bool = False) -> dict[int, Process]:
        with self._lock:
            if fresh or time.monotonic() - self._seen_at > _SHARED_SECONDS:
                self._processes = _read_all()
                self._seen_at = time.monotonic()
            return self._processes


@cache
def _proc_is_ours() -> bool:
    """True if ``/proc`` numbers processes as we do. In another PID namespace its numbers mean other processes."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def _read_all() -> dict[int, Process]:
    names = os.listdir("/proc") if _proc_is_ours() else []
    processes = (_read(int(name)) for name in names if name.isdigit())
    return {process.pid: process for process in processes if process}


def _read(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The command's name is in brackets and may contain anything, even brackets.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    cpu = (int(fields[11]) + int(fields[12])) / _TICK
    return Process(pid, int(fields[1]), int(fields[3]), cpu, int(fields[21]) * _PAGE, int(fields[19]))


class UsageMeter:
    """Measures one program and everything it started.

    A process belongs to it when it is in its session, or was ever seen to descend from it: also one that left the
    session.

    Args:
        leader: The program's process id, which is also its session's and group's.
        table: Where to look.
    """

    def __init__(self, leader: int, table: ProcessTable) -> None:
        self._leader, self._table = leader, table
        self._members: dict[int, int] = {}
        self.peak_bytes = 0

    def sample(self, *, fresh: bool = False) -> list[Process]:
        """Look at it now; keeps the peak. Returns its live processes."""
        processes = self._table.look(fresh=fresh)
        members = [p for p in processes.values() if self._belongs(p, processes)]
        self._members.update({p.pid: p.started for p in members})
        self.peak_bytes = max(self.peak_bytes, sum(p.rss_bytes for p in members))
        return members

    def glance(self) -> None:
        """Look at the leader only: cheap, for programs that end before the first sample."""
        try:
            if not _proc_is_ours():
                return
            with open(f"/proc/{self._leader}/status", "rb") as file:
                for line in file:
                    if line.startswith(b"VmHWM:"):
                        self.peak_bytes = max(self.peak_bytes, int(line.split()[1]) * 1024)
                        return
        except OSError:
            return

    def _belongs(self, process: Process, processes: dict[int, Process]) -> bool:
        if process.session == self._leader or self._members.get(process.pid) == process.started:
            return True
        parent = processes.get(process.parent)
        for _ in range(64):
            if parent is None:
                return False
            if parent.pid == self._leader or self._members.get(parent.pid) == parent.started:
                return True
            parent = processes.get(parent.parent)
        return False

    def peak_mib(self, waited: resource.struct_rusage | None = None) -> float:
        """The peak in MiB.

        What `wait4` reports for a child includes the memory of the process that started it (Linux takes it over at
        exec), so it counts only where it is larger than ours.
        """
        if waited is None:
            return self.peak_bytes / MIB
        ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        theirs = waited.ru_maxrss * 1024
        return (max(self.peak_bytes, theirs) if theirs > ours else self.peak_bytes) / MIB


def adopt_orphans() -> None:
    """Become the parent of what our children leave behind (Linux, `PR_SET_CHILD_SUBREAPER`), so that it can be found
    and ended."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        # Not Linux: process groups have to suffice.
        return


def die_with_parent(parent: int) -> None:
    """Be killed when our parent ends, however it ends (Linux, `PR_SET_PDEATHSIG`).

    Args:
        parent: Its process id; when it has ended already, so do we.
    """
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(1)


def forked(main: Callable[[], int]) -> None:
    """Run `main` in a forked process, which never returns into its parent's program."""
    code = 1
    try:
        code = int(main())
    except BaseException as error:  # a traceback of a fork would be printed as the parent's
        print(f"tidemill: {type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


def end_children() -> None:
    """End our children until there are none: a killed process leaves its children to us."""
    deadline = time.monotonic() + _END_SECONDS
    while (left := own_children()) and time.monotonic() < deadline:
        for pid in left:
            end_child(pid)
        time.sleep(0.005)


def end_child(pid: int) -> None:
    """End a process that was left to us, and its group when it leads one."""
    with suppress(OSError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
    with suppress(OSError):
        os.waitpid(pid, os.WNOHANG)


def own_children() -> set[int]:
    """Process ids of our children, those that were adopted included."""
    threads = os.listdir("/proc/self/task") if _proc_is_ours() else []
    return {child for thread in threads for child in _children(int(thread))}


def adopted_children() -> set[int]:
    """Children of our main thread, which starts none itself: what was adopted (Linux gives it to the first thread)."""
    return _children(os.getpid())


def _children(thread: int) -> set[int]:
    try:
        # Read for each item, and a file object would cost twice as much.
        file = os.open(f"/proc/self/task/{thread}/children", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return set()
    try:
        data = b""
        while block := os.read(file, 65_536):
            data += block
        return set(map(int, data.split()))
    except OSError:
        return set()
    finally:
        os.close(file)


def environment_of(pid: int) -> bytes:
    """The environment that a process was started with; empty when it may not be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def why_stuck(pid: int) -> str:
    """Why SIGKILL does not end a process."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", "rb") as file:
            state = file.read().rpartition(b")")[2].split()[0].decode()
    except PermissionError:
        return "it runs as another user"
    except (OSError, IndexError):
        return "its state cannot be read"
    return "it sleeps in the kernel, as after an error of a device" if state == "D" else f"its state is {state}"


def prefer_at_oom(pid: int) -> None:
    """Let the kernel take a program rather than the worker when the container is out of memory."""
    try:
        if not _proc_is_ours():
            return
        with open(f"/proc/{pid}/oom_score_adj", "w") as file:
            file.write(_CHILD_OOM_SCORE)
    except OSError:
        return


def oom_kills() -> int:
    """How often the kernel has ended a process of this container for want of memory (cgroup v2)."""
    try:
        for line in _OOM_EVENTS.read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError):
        return 0
    return 0
