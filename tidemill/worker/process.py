"""One run of a program: started, watched, ended whole."""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tidemill.worker.faults import FAULTS, item_error
from tidemill.worker.gpus import GpuUse, GpuWatch
from tidemill.worker.output import ItemOutput
from tidemill.worker.stop import Stop
from tidemill.worker.usage import (
    ProcessTable,
    UsageMeter,
    adopted_children,
    environment_of,
    oom_kills,
    prefer_at_oom,
)

SAMPLE_SECONDS = 0.5
GLANCES = (0.02, 0.1)
"""Seconds after the start at which the leader alone is looked at."""
GRACE_SECONDS = 10.0
"""Between SIGTERM and SIGKILL."""
_READ_BYTES = 65_536
_NEARLY = 0.9
"""Of the memory limit: from there on a program that timed out may have been short of memory."""


@dataclass(frozen=True)
class Limits:
    """What a run may take."""

    seconds: float
    memory_mib: float | None = None
    grace_seconds: float = GRACE_SECONDS
    gpus: int = 0
    """How many it was given to itself."""


class Ended(NamedTuple):
    """How a run ended."""

    reason: str | None
    """None: by itself with exit code 0. ``exit``, ``signal``, ``timeout``, ``memory``, ``start`` or ``stopped``."""
    exit_code: int | None
    """Its exit code; negative for a signal; None when it did not start."""
    wall_seconds: float
    cpu_seconds: float
    peak_memory_mib: float
    error: str = ""
    """What we have to say of the end, where the program may have said nothing."""
    left_something: bool = False
    """Whether it left processes behind, which may still hold the slot's pipes."""
    gpu: GpuUse | None = None
    """What it used of GPUs, where it was given some."""


class Pipes:
    """The pipes of a slot: its programs write to them one after the other, so they are made once.

    We hold the writing ends too: the end of a program is seen by its process, not by the end of its pipes, which
    anything that it left behind could keep open.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.ours: dict[int, str] = {}
        self.theirs: list[int] = []
        for name in ("stdout", "stderr"):
            read, write = os.pipe()
            os.set_blocking(read, False)
            self._selector.register(read, selectors.EVENT_READ)
            self.ours[read] = name
            self.theirs.append(write)

    def wait(self, seconds: float, exit_: int | None) -> list[int]:
        """Descriptors that can be read; `exit_` is one that tells a process's end."""
        if exit_ is not None and exit_ not in self._selector.get_map():
            self._selector.register(exit_, selectors.EVENT_READ)
        return [key.fd for key, _ in self._selector.select(seconds)]

    def forget(self, exit_: int | None) -> None:
        """The process has ended."""
        if exit_ is not None:
            with suppress(KeyError):
                self._selector.unregister(exit_)
            os.close(exit_)

    def close(self) -> None:
        """Close them."""
        self._selector.close()
        for descriptor in (*self.ours, *self.theirs):
            os.close(descriptor)


class Programs:
    """Runs programs; shared by the slots of a worker.

    Args:
        stop: Ends every run.
    """

    def __init__(self, stop: Stop) -> None:
        self.stop = stop
        self.table = ProcessTable()
        self._leaders: dict[int, bytes] = {}
        """Programs that run, each with what marks its environment."""
        self._helpers: set[int] = set()
        self._owners: dict[int, set[int]] = {}
        """Orphans whose environment tells nothing, each with the programs that may have left it."""
        self.gpus = GpuWatch.find(self.ask)
        # Whoever looks for orphans must not take a program for one that starts at this moment.
        self._starting = threading.Lock()
        self._kernel_kills = oom_kills()

    def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        limits: Limits,
        output: ItemOutput,
        pipes: Pipes,
        stop: Stop | None = None,
        home: Path | None = None,
    ) -> Ended:
        """Run a program to its end, in a session of its own, without stdin.

        Args:
            command: The program and its arguments; no shell.
            cwd: Where it runs.
            env: Its whole environment.
            limits: What it may take.
            output: Where its output goes.
            pipes: Of the slot that it runs in.
            stop: Ends this run; None for what ends every run.
            home: The folder of its slot, see `start`.
        """
        started = time.monotonic()
        stdout, stderr = pipes.theirs
        try:
            child = self.start(command, cwd=cwd, env=env, stdout=stdout, stderr=stderr, home=home)
        except FAULTS as error:
            return _not_started(command[0], error)
        run = _Run(self, child, limits, output, pipes, stop=self.stop if stop is None else stop)
        if self.gpus is None:
            return run.follow(started)
        window = self.gpus.open(env, limits.gpus > 0)
        try:
            return run.follow(started)._replace(gpu=self.gpus.close(window))
        finally:
            self.gpus.close(window)

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

        Args:
            command: The program and its arguments; no shell.
            cwd: Where it runs.
            env: Its whole environment.
            stdout: Descriptor that it writes to.
            stderr: Another.
            pass_fds: What else of ours it inherits.
            home: The folder of its slot, which `env` names: by that, what it leaves behind is told from what other
                programs have started.
        """
        with self._starting:
            child = subprocess.Popen(
                command,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                # What we open is not inherited; asking the kernel what is open costs as much as a short program.
                close_fds=bool(pass_fds),
                pass_fds=pass_fds,
            )
            self._leaders[child.pid] = b"" if home is None else os.fsencode(f"={home}/")
            return child

    def ask(self, command: Sequence[str], env: Mapping[str, str], seconds: float) -> str:
        """Run a small program of the worker's own beside the items', and return what it prints.

        Raises:
            OSError: It does not start.
            subprocess.SubprocessError: It fails, or takes longer than this.
        """
        with self._starting:
            child = subprocess.Popen(
                command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self._helpers.add(child.pid)
        try:
            said = child.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise
        finally:
            with self._starting:
                self._helpers.discard(child.pid)
        if child.returncode:
            raise subprocess.CalledProcessError(child.returncode, list(command))
        return said.decode("utf-8", "replace")

    def stop_program(self, child: subprocess.Popen[bytes], first: signal.Signals, grace_seconds: float) -> None:
        """Ask a program to end, and make sure that it does; it is not reaped."""
        signal_group(child.pid, first)
        deadline = time.monotonic() + grace_seconds
        while not exited(child.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        signal_group(child.pid, signal.SIGKILL)

    def reap(self, child: subprocess.Popen[bytes], consumption: UsageMeter) -> Reaped:
        """Take a program in that has ended or was killed, with everything that it started."""
        # Before it is reaped its number cannot be another's.
        with self._starting:
            orphans = self._orphans()
        left = consumption.sample(fresh=True) if orphans else []
        signal_group(child.pid, signal.SIGKILL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        cpu = used.ru_utime + used.ru_stime
        for process in left:
            if process.pid != child.pid:
                cpu += process.cpu_seconds
                _kill_and_reap(process.pid)
        found = self._end_orphans(child.pid)
        return Reaped(child.returncode, cpu, consumption.peak_mib(used), found or len(left) > 1)

    def _orphans(self) -> set[int]:
        """Children of ours that we did not start."""
        return adopted_children() - self._leaders.keys() - self._helpers

    def _end_orphans(self, leader: int) -> bool:
        """End what a program that has ended left behind; says whether there was anything.

        A process that lost its parent and left its session is told by its environment, which names the slot. One that
        has cleared its environment may be of any program that runs when it is first seen: it ends after the last.
        """
        with self._starting:
            mark = self._leaders.pop(leader)
            for owners in self._owners.values():
                owners.discard(leader)
            seen: set[int] = set()
            deadline = time.monotonic() + GRACE_SECONDS
            # What is ended leaves children of its own to us.
            while time.monotonic() < deadline:
                left = [pid for pid in self._orphans() - seen if self._is_left(pid, mark)]
                if not left:
                    break
                seen.update(left)
                for pid in left:
                    _kill_and_reap(pid)
            if self._owners:
                self._owners = {pid: self._owners[pid] for pid in self._owners.keys() & self._orphans()}
            return bool(seen)

    def _is_left(self, pid: int, mark: bytes) -> bool:
        """Whether an orphan is of no program that runs."""
        environment = environment_of(pid)
        if mark and mark in environment:
            return True
        if any(other and other in environment for other in self._leaders.values()):
            return False
        return not self._owners.setdefault(pid, set(self._leaders))

    def killed_by_kernel(self) -> bool:
        """Whether the kernel has ended a process of this container, for want of memory, since this was last asked."""
        before, self._kernel_kills = self._kernel_kills, oom_kills()
        return self._kernel_kills > before


class Reaped(NamedTuple):
    """A program that is gone, with everything it started."""

    exit_code: int
    cpu_seconds: float
    peak_memory_mib: float
    left_something: bool
    """Whether it left processes behind, which may have held its pipes."""


class _Run:
    def __init__(
        self,
        programs: Programs,
        child: subprocess.Popen[bytes],
        limits: Limits,
        output: ItemOutput,
        pipes: Pipes,
        *,
        stop: Stop,
    ) -> None:
        self._programs, self._child, self._limits, self._output, self._pipes = programs, child, limits, output, pipes
        self._stop = stop
        self._consumption = UsageMeter(child.pid, programs.table)
        self._reason: str | None = None
        self._said = ""
        self._kill_at: float | None = None

    def follow(self, started: float) -> Ended:
        exit_ = exit_descriptor(self._child.pid)
        try:
            self._watch(exit_, started)
        except FAULTS:
            # The attempt fails; its program must not outlive it.
            signal_group(self._child.pid, signal.SIGKILL)
            self._programs.reap(self._child, self._consumption)
            raise
        finally:
            self._pipes.forget(exit_)
        wall = time.monotonic() - started
        reaped = self._programs.reap(self._child, self._consumption)
        for descriptor in self._pipes.ours:
            while self._read(descriptor):
                pass
        self._output.end()
        reason, said = self._verdict(reaped)
        return Ended(
            reason, reaped.exit_code, wall, reaped.cpu_seconds, reaped.peak_memory_mib, said, reaped.left_something
        )

    def _watch(self, exit_: int | None, started: float) -> None:
        """Until the leader has exited; it is not reaped yet, so that its process id stays its own."""
        looks = [started + seconds for seconds in (*GLANCES, SAMPLE_SECONDS)]
        while True:
            now = time.monotonic()
            if now >= looks[0]:
                self._look(len(looks))
                looks = looks[1:] or [now + SAMPLE_SECONDS]
            self._enforce(now, started)
            pause = max(0.0, min(looks[0], started + self._limits.seconds) - now) if not self._reason else 0.1
            ready = self._pipes.wait(min(pause, SAMPLE_SECONDS), exit_)
            for descriptor in ready:
                if descriptor != exit_:
                    self._read(descriptor)
            if exit_ in ready or (exit_ is None and exited(self._child.pid)):
                return

    def _look(self, looks_left: int) -> None:
        if looks_left > 1:
            if looks_left > len(GLANCES):
                prefer_at_oom(self._child.pid)
            self._consumption.glance()
            return
        self._consumption.sample()
        limit = self._limits.memory_mib
        used = self._consumption.peak_bytes / 1024**2
        if limit is not None and used > limit and self._reason is None:
            self._give_up("memory", f"killed: it held {used:.0f} MiB, its limit is {limit:.0f} MiB", signal.SIGKILL)

    def _enforce(self, now: float, started: float) -> None:
        if self._reason is None and self._stop:
            self._give_up("stopped", "", signal.SIGTERM)
        elif self._reason is None and now - started > self._limits.seconds:
            self._give_up("timeout", "", signal.SIGTERM)
        elif self._kill_at is not None and now >= self._kill_at:
            signal_group(self._child.pid, signal.SIGKILL)

    def _give_up(self, reason: str, said: str, first: signal.Signals) -> None:
        self._reason, self._said = reason, said
        self._kill_at = time.monotonic() + (self._limits.grace_seconds if first is signal.SIGTERM else 0.0)
        signal_group(self._child.pid, first)

    def _read(self, descriptor: int) -> bool:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return False
        if not self._consumption.peak_bytes:
            self._consumption.glance()
        self._output.feed(self._pipes.ours[descriptor], data)
        return True

    def _verdict(self, reaped: Reaped) -> tuple[str | None, str]:
        if self._reason == "timeout":
            return self._reason, timed_out(self._limits, reaped.peak_memory_mib)
        if self._reason:
            return self._reason, self._said
        code = reaped.exit_code
        if code == -signal.SIGKILL and self._programs.killed_by_kernel():
            return "memory", "killed by the kernel: the container was out of memory"
        if code < 0:
            return "signal", f"killed by {signal_name(-code)}"
        return ("exit", f"exit code {code}") if code else (None, "")


def timed_out(limits: Limits, peak_mib: float) -> str:
    """What is said of a program that ran too long. One that is short of memory often hangs instead of ending."""
    said = f"killed: its time limit is {limits.seconds:g} s"
    if limits.memory_mib is None or peak_mib < _NEARLY * limits.memory_mib:
        return said
    near = f"it held {peak_mib:.0f} MiB, its memory limit is {limits.memory_mib:.0f} MiB"
    return f"{said}; {near}: it may lack memory rather than time (--memory)"


def signal_group(leader: int, number: signal.Signals) -> None:
    """Send a signal to a program's whole group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def exit_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when the process exits (Linux), or None."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def exited(pid: int) -> bool:
    """Whether a child has ended; it is not reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill_and_reap(pid: int) -> None:
    wait_for_it = 0
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    except PermissionError:
        # It runs as another user (sudo): it is ended with the container.
        wait_for_it = os.WNOHANG
    with suppress(ChildProcessError):
        os.waitpid(pid, wait_for_it)


def signal_name(number: int) -> str:
    """`SIGTERM` for 15."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _not_started(program: str, error: Exception) -> Ended:
    """A program that did not start. Where no program could take its arguments the item is to blame."""
    of_the_item = isinstance(error, ValueError) or (isinstance(error, OSError) and error.errno == errno.E2BIG)
    fault = item_error("input" if of_the_item else "start", f"{program} did not start", error)
    return Ended(fault.reason, None, 0.0, 0.0, 0.0, str(fault))
