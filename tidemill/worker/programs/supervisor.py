"""The supervisor of one process: it watches time, memory and exit, ends the process and words the verdict.

A command's process and the process of a function have the same limits, the same end and the same messages.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidemill.worker.machine.gpus import GpuUse, Window
from tidemill.worker.machine.stop import Stop
from tidemill.worker.machine.usage import UsageMeter, prefer_at_oom
from tidemill.worker.programs.programs import GRACE_SECONDS, Programs, ReapResult, exit_descriptor, exited, signal_group

SAMPLE_SECONDS = 0.5
GLANCES = (0.02, 0.1)
"""Seconds after the start when only the first process's memory is read."""
_ENDING_SECONDS = 0.1
"""Seconds between two checks of a process that is being ended."""
_NEARLY = 0.9
"""Share of the memory limit above which a program that timed out may have been short of memory."""


@dataclass(frozen=True)
class Limits:
    """Limits of a run."""

    seconds: float
    memory_mib: float | None = None
    grace_seconds: float = GRACE_SECONDS
    gpus: int = 0
    """How many it was given to itself."""
    stop_signal: signal.Signals | None = signal.SIGTERM
    """Signal that asks it to stop; None for no signal before its end."""
    left: Callable[[], float] | None = None
    """Seconds that it has left after it was told so, asked again and again; None for `grace_seconds`."""


class Verdict(NamedTuple):
    """Why an attempt failed."""

    reason: str
    """As in an outcome, or ``stopped``."""
    error: str
    exit_code: int | None = None
    final: bool = False
    """True if another attempt is useless."""


class Supervisor:
    """Watches a process, the leader of its session, and ends it: with SIGTERM, after a grace period with SIGKILL;
    at once for its memory. `since` is when its first item began, on the clock of `time.monotonic`."""

    def __init__(
        self, programs: Programs, child: subprocess.Popen[bytes], limits: Limits, env: Mapping[str, str], since: float
    ) -> None:
        self._programs, self._child, self.limits, self._env, self._since = programs, child, limits, env, since
        self.exit_ = exit_descriptor(child.pid)
        """Becomes readable at the process's exit; None where the system has no such descriptor."""
        self.meter = UsageMeter(child.pid, programs.table)
        self._samples = [since + seconds for seconds in (*GLANCES, SAMPLE_SECONDS)]
        self._reason: str | None = None
        self._error = ""
        self._kill_at = self._killed_at = math.inf
        self._window: Window | None = None

    def begin(self) -> None:
        """An item begins: its time counts from now, and its GPUs are watched."""
        self._since = time.monotonic()
        if self._programs.gpus is not None:
            self._window = self._programs.gpus.open(self._env, self.limits.gpus > 0)

    def gpu_use(self) -> GpuUse | None:
        """The item has ended: what it used of its GPUs."""
        window, self._window = self._window, None
        return self._programs.gpus.close(window) if self._programs.gpus is not None else None

    def pause(self) -> float:
        """Seconds until the next `check` is due."""
        if self._reason:
            return _ENDING_SECONDS
        due = min(self._samples[0], self._since + self.limits.seconds)
        return min(max(0.0, due - time.monotonic()), SAMPLE_SECONDS)

    def check(self, stop: Stop) -> str | None:
        """Begin to end the process when it passes a limit or `stop` is raised. Returns ``stopped``, ``timeout``,
        ``memory`` or None."""
        now = time.monotonic()
        if now >= self._samples[0]:
            self._sample(now)
        if self._reason is not None:
            if self._reason == "stopped" and self.limits.left is not None:
                self._kill_at = now + self.limits.left()
            if now >= self._kill_at:
                self._killed_at = min(self._killed_at, now)
                signal_group(self._child.pid, signal.SIGKILL)
        elif stop.raised:
            self._give_up("stopped", self.limits.stop_signal)
        elif now - self._since > self.limits.seconds:
            self._give_up("timeout", signal.SIGTERM)
        return self._reason

    def exited(self) -> bool:
        return exited(self._child.pid)

    @property
    def patience(self) -> float:
        """Seconds that the process is still waited for, from its first SIGKILL."""
        return min(self._killed_at - time.monotonic(), 0.0) + self._programs.stuck_seconds

    def left_alone(self, stop: Stop) -> bool:
        """True if children of the ended process may still be saving: only after it was told to stop with time left.
        A shell ends at once, and its command after it."""
        if self.check(stop) != "stopped" or self.limits.left is None or time.monotonic() >= self._kill_at:
            return False
        # One that has ended and was not reaped holds no memory.
        return any(one.pid != self._child.pid and one.rss_bytes for one in self.meter.sample(fresh=True))

    def end(self) -> ReapResult:
        """End the process, after its grace period when a check has begun that, and reap it."""
        while self._reason and not self.exited() and time.monotonic() < self._kill_at:
            time.sleep(0.01)
        signal_group(self._child.pid, signal.SIGKILL)
        return self.reap()

    def reap(self) -> ReapResult:
        self.gpu_use()
        try:
            return self._programs.reap(self._child, self.meter, max(0.0, self.patience))
        finally:
            if self.exit_ is not None:
                os.close(self.exit_)
                self.exit_ = None

    def verdict(self, reaped: ReapResult) -> Verdict | None:
        """Why the process failed; None for exit code 0."""
        code = reaped.exit_code
        if self._reason == "timeout":
            self._error = timed_out(self.limits, reaped.peak_memory_mib)
        if reaped.stuck:
            # Another attempt would be lost on this machine, and may cost the next one, too.
            error = f"{self._error or 'killed'}; SIGKILL did not end it"
            return Verdict(self._reason or "signal", error, code, final=True)
        if self._reason:
            return Verdict(self._reason, self._error, code)
        if code == -signal.SIGKILL and self._programs.killed_by_kernel():
            return Verdict("memory", "killed by the kernel: the container was out of memory", code)
        if code < 0:
            return Verdict("signal", f"killed by {signal_name(-code)}", code)
        return Verdict("exit", f"exit code {code}", code) if code else None

    def _sample(self, now: float) -> None:
        left = len(self._samples)
        self._samples = self._samples[1:] or [now + SAMPLE_SECONDS]
        if left > 1:
            if left > len(GLANCES):
                prefer_at_oom(self._child.pid)
            self.meter.glance()
            return
        self.meter.sample()
        used, limit = self.meter.peak_mib(), self.limits.memory_mib
        if limit is not None and used > limit and self._reason is None:
            self._error = f"killed: it held {used:.0f} MiB, its limit is {limit:.0f} MiB"
            self._give_up("memory", signal.SIGKILL)

    def _give_up(self, reason: str, first: signal.Signals | None) -> None:
        self._reason = reason
        self._kill_at = time.monotonic() + (0.0 if first is signal.SIGKILL else self.limits.grace_seconds)
        if reason == "stopped" and self.limits.left is not None:
            self._kill_at = time.monotonic() + self.limits.left()
        if first is not None:
            signal_group(self._child.pid, first)


def timed_out(limits: Limits, peak_mib: float) -> str:
    """The message for a program that ran too long. One that is short of memory often hangs instead of ending."""
    text = f"killed: its time limit is {limits.seconds:g} s"
    if limits.memory_mib is None or peak_mib < _NEARLY * limits.memory_mib:
        return text
    near = f"it held {peak_mib:.0f} MiB, its memory limit is {limits.memory_mib:.0f} MiB"
    return f"{text}; {near}: it may lack memory rather than time (memory_mib)"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
