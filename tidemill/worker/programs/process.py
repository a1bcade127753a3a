"""One run of a program: started, supervised, its output read."""

from __future__ import annotations

import errno
import math
import os
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tidemill.worker.machine.gpus import GpuUse
from tidemill.worker.machine.stop import Stop
from tidemill.worker.output import ItemOutput
from tidemill.worker.programs.faults import FAULTS, item_error
from tidemill.worker.programs.programs import Programs
from tidemill.worker.programs.supervisor import Limits, Supervisor

_READ_BYTES = 65_536


class ProgramExit(NamedTuple):
    """How a run ended."""

    reason: str | None
    """None: by itself with exit code 0. ``exit``, ``signal``, ``timeout``, ``memory``, ``start`` or ``stopped``."""
    exit_code: int | None
    """Its exit code; negative for a signal; None when it did not start."""
    wall_seconds: float
    cpu_seconds: float
    peak_memory_mib: float
    error: str = ""
    """The worker's own words about the end, where the program may have printed nothing."""
    left_something: bool = False
    """True if it left processes behind, which may still hold the slot's pipes."""
    gpu: GpuUse | None = None
    """Its use of GPUs, where it was given some."""
    final: bool = False
    """True if another attempt is useless."""


class Pipes:
    """The pipes of a slot: its programs write to them one after the other, so they are made once.

    We hold the writing ends too: the end of a program is seen by its process, not by the end of its pipes, which
    anything that it left behind could keep open.
    """

    def __init__(self) -> None:
        # Not epoll, which takes calls of its own for each program's `exit_`.
        self._poll = select.poll()
        self.ours: dict[int, str] = {}
        self.theirs: list[int] = []
        for name in ("stdout", "stderr"):
            read, write = os.pipe()
            os.set_blocking(read, False)
            self._poll.register(read, select.POLLIN)
            self.ours[read] = name
            self.theirs.append(write)

    def wait(self, seconds: float, exit_: int | None) -> list[int]:
        """Descriptors that can be read; `exit_` is one that tells a process's end."""
        if exit_ is not None:
            self._poll.register(exit_, select.POLLIN)
        return [descriptor for descriptor, _ in self._poll.poll(math.ceil(seconds * 1000))]

    def forget(self, exit_: int | None) -> None:
        if exit_ is not None:
            with suppress(KeyError):
                self._poll.unregister(exit_)

    def close(self) -> None:
        for descriptor in (*self.ours, *self.theirs):
            os.close(descriptor)


def run_program(
    programs: Programs,
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    limits: Limits,
    output: ItemOutput,
    pipes: Pipes,
    stop: Stop | None = None,
    home: Path | None = None,
) -> ProgramExit:
    """Run a program to its end, in a session of its own, without stdin. `stop` ends this run; `home` is its slot's
    folder."""
    started = time.monotonic()
    stdout, stderr = pipes.theirs
    try:
        child = programs.start(command, cwd=cwd, env=env, stdout=stdout, stderr=stderr, home=home)
    except FAULTS as error:
        return _not_started(command[0], error)
    supervisor = Supervisor(programs, child, limits, env, started)
    supervisor.begin()
    try:
        _follow(supervisor, output, pipes, programs.stop if stop is None else stop)
    except FAULTS:
        # The attempt fails; its program must not outlive it.
        pipes.forget(supervisor.exit_)
        supervisor.end()
        raise
    pipes.forget(supervisor.exit_)
    wall, gpu = time.monotonic() - started, supervisor.gpu_use()
    reaped = supervisor.reap()
    for descriptor in pipes.ours:
        while _read(descriptor, supervisor, output, pipes):
            pass
    output.end()
    verdict = supervisor.verdict(reaped)
    return ProgramExit(
        verdict.reason if verdict else None,
        reaped.exit_code,
        wall,
        reaped.cpu_seconds,
        reaped.peak_memory_mib,
        verdict.error if verdict else "",
        reaped.left_something,
        gpu,
        verdict is not None and verdict.final,
    )


def _follow(supervisor: Supervisor, output: ItemOutput, pipes: Pipes, stop: Stop) -> None:
    """Until the program has exited, or is given up; it is not reaped yet, so that its process id stays its own."""
    exit_ = supervisor.exit_
    while supervisor.patience > 0:
        supervisor.check(stop)
        ready = pipes.wait(supervisor.pause(), exit_)
        for descriptor in ready:
            if descriptor != exit_:
                _read(descriptor, supervisor, output, pipes)
        if (exit_ in ready or (exit_ is None and supervisor.exited())) and not supervisor.left_alone(stop):
            return


def _read(descriptor: int, supervisor: Supervisor, output: ItemOutput, pipes: Pipes) -> bool:
    try:
        data = os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return False
    if not supervisor.meter.peak_bytes:
        supervisor.meter.glance()
    output.feed(pipes.ours[descriptor], data)
    return True


def _not_started(program: str, error: Exception) -> ProgramExit:
    """A program that did not start. If no program could take these arguments, the item is to blame."""
    of_the_item = isinstance(error, ValueError) or (isinstance(error, OSError) and error.errno == errno.E2BIG)
    fault = item_error("input" if of_the_item else "start", f"{program} did not start", error)
    return ProgramExit(fault.reason, None, 0.0, 0.0, 0.0, str(fault))
