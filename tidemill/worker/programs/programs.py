"""Programs: each started in a session of its own, and reaped with everything that it leaves behind."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from tidemill.descriptor import WorkerExit
from tidemill.worker.machine.gpus import GpuWatch
from tidemill.worker.machine.stop import Stop
from tidemill.worker.machine.usage import (
    ProcessTable,
    UsageMeter,
    adopted_children,
    environment_of,
    oom_kills,
    why_stuck,
)
from tidemill.worker.output import log_event

GRACE_SECONDS = 10.0
"""Seconds between SIGTERM and SIGKILL."""
STUCK_SECONDS = 60.0
"""Seconds after SIGKILL until a process is given up: it runs as another user, or sleeps in the kernel for good, as
after an error of a GPU or when a file server is gone."""
_LOOK_SECONDS = 0.05


class Programs:
    """Starts programs and reaps them; shared by the slots of a worker. `stop` ends every run."""

    def __init__(self, stop: Stop, stuck_seconds: float = STUCK_SECONDS) -> None:
        self.stop, self.stuck_seconds = stop, stuck_seconds
        self.table = ProcessTable()
        self._leaders: dict[int, bytes] = {}
        """Programs that run, each with what marks its environment."""
        self._helpers: set[int] = set()
        self._owners: dict[int, set[int]] = {}
        """Orphans whose environment tells nothing, each with the programs that may have left it."""
        self.gpus = GpuWatch.find(self.ask)
        # A search for orphans must not mistake a starting program for one.
        self._starting = threading.Lock()
        self._kernel_kills = oom_kills()
        self._found: dict[tuple[str, str], str | None] = {}
        """By name and `PATH`: where a program was found."""

    def start(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdout: int,
        stderr: int,
        pass_fds: Sequence[int] = (),
        home: Path | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program in a session of its own. Its caller reaps it.

        `env` is its whole environment and names `home`, the folder of its slot: by that, what the program leaves behind
        is told from what others started.
        """
        start = partial(
            subprocess.Popen[bytes],
            command,
            cwd=cwd,
            env=env,
            stdin=_nothing(),
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            # Our own files are not inherited; asking the kernel for open ones costs as much as a short program.
            close_fds=bool(pass_fds),
            pass_fds=pass_fds,
        )
        with self._starting:
            try:
                child = start(executable=self._find(command[0], env.get("PATH", "")))
            except OSError:
                # It may have moved since. If not, this error names it as the command does.
                self._found.clear()
                child = start()
            self._leaders[child.pid] = b"" if home is None else os.fsencode(f"={home}/")
            return child

    def _find(self, name: str, path: str) -> str | None:
        """Where `PATH` has a program, looked up once, as a shell does. None where that depends on the program's own
        folder."""
        if "/" in name:
            return None
        if (name, path) not in self._found:
            whole = all(map(os.path.isabs, path.split(os.pathsep)))
            self._found[name, path] = shutil.which(name, path=path) if whole else None
        return self._found[name, path]

    def ask(self, command: Sequence[str], env: Mapping[str, str], seconds: float) -> str:
        """Run a small program of the worker's own next to the items' programs, and return what it prints."""
        with self._starting:
            child = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self._helpers.add(child.pid)
        try:
            output = child.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise
        finally:
            with self._starting:
                self._helpers.discard(child.pid)
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, list(command))
        return output.decode("utf-8", "replace")

    def reap(self, child: subprocess.Popen[bytes], consumption: UsageMeter, patience: float) -> ReapResult:
        """Take a program in that has ended or was killed, with everything that it started. One that SIGKILL does not
        end within seconds of `patience` is given up, and the worker leaves."""
        # Before it is reaped its number cannot be another's, and once it has exited, what it left is a child of ours.
        has_exited = exited(child.pid)
        with self._starting:
            orphans = self._orphans()
        left = consumption.sample(fresh=True) if orphans else []
        signal_group(child.pid, signal.SIGKILL)
        ended = _wait(child.pid, patience)
        if ended is None:
            # It stays one of ours, so that no search takes it for an orphan.
            child.returncode = -signal.SIGKILL
            self._give_up(child.pid)
            return ReapResult(child.returncode, 0.0, consumption.peak_mib(), True, stuck=True)
        status, used = ended
        child.returncode = os.waitstatus_to_exitcode(status)
        cpu = used.ru_utime + used.ru_stime
        for process in left:
            if process.pid != child.pid:
                cpu += process.cpu_seconds
                self._end_left(process.pid)
        ended_orphans = self._end_orphans(child.pid, look=bool(orphans) or not has_exited)
        return ReapResult(child.returncode, cpu, consumption.peak_mib(used), ended_orphans or len(left) > 1)

    def _orphans(self) -> set[int]:
        return adopted_children() - self._leaders.keys() - self._helpers

    def _end_orphans(self, leader: int, *, look: bool) -> bool:
        """End what a program that has ended left behind; says whether there was anything. `look`: whether there may be.

        A process that lost its parent and left its session is told by its environment, which names the slot. One that
        has cleared its environment may be of any program that runs when it is first seen: it ends after the last.
        """
        with self._starting:
            mark = self._leaders.pop(leader)
            for owners in self._owners.values():
                owners.discard(leader)
            seen: set[int] = set()
            deadline = time.monotonic() + GRACE_SECONDS
            # An ended process leaves its children to us.
            while look and time.monotonic() < deadline:
                left = [pid for pid in self._orphans() - seen if self._is_left(pid, mark)]
                if not left:
                    break
                seen.update(left)
                for pid in left:
                    self._end_left(pid)
            if self._owners:
                self._owners = {pid: self._owners[pid] for pid in self._owners.keys() & self._orphans()}
            return bool(seen)

    def _end_left(self, pid: int) -> None:
        """End a process that a program has left behind."""
        with suppress(ChildProcessError):  # it has ended, or is not ours
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            except PermissionError:
                # It runs as another user (sudo): it is ended with the container.
                _wait(pid, 0)
                return
            if _wait(pid, 0 if self.stop.leaving else self.stuck_seconds) is None and not self.stop.leaving:
                self._give_up(pid)

    def _give_up(self, pid: int) -> None:
        """The worker leaves without a process that cannot be ended; its container or its machine goes with it."""
        self.stop.leave()
        text = (
            f"process {pid} of an item was sent SIGKILL and does not end: {why_stuck(pid)}. "
            "This worker starts nothing more, and leaves when its other items have ended."
        )
        log_event("worker_error", text, "error", code=int(WorkerExit.BROKEN))

    def _is_left(self, pid: int, mark: bytes) -> bool:
        """True if an orphan belongs to no running program."""
        environment = environment_of(pid)
        if mark and mark in environment:
            return True
        if any(other and other in environment for other in self._leaders.values()):
            return False
        return not self._owners.setdefault(pid, set(self._leaders))

    def killed_by_kernel(self) -> bool:
        """True if the kernel has ended a process of this container, for want of memory, since the last call."""
        before, self._kernel_kills = self._kernel_kills, oom_kills()
        return self._kernel_kills > before


class ReapResult(NamedTuple):
    """A program that is gone, with everything it started."""

    exit_code: int
    cpu_seconds: float
    peak_memory_mib: float
    left_something: bool
    """True if it left processes behind, which may have held its pipes."""
    stuck: bool = False
    """True if it is still there: SIGKILL does not end it."""


@cache
def _nothing() -> int:
    """The stdin of every program."""
    return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)


def signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def exit_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when the process exits (Linux), or None."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def exited(pid: int) -> bool:
    """True if a child has ended; it is not reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _wait(pid: int, seconds: float) -> tuple[int, resource.struct_rusage] | None:
    """Reap a child that ends within some seconds; None for one that does not. `ChildProcessError` if it is none."""
    deadline, pause = time.monotonic() + seconds, 0.0005
    while True:
        child, status, used = os.wait4(pid, os.WNOHANG)
        if child:
            return status, used
        if time.monotonic() >= deadline:
            return None
        time.sleep(pause)
        pause = min(2 * pause, _LOOK_SECONDS)
