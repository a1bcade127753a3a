"""The process of a function: the shim in the image's own Python, started, asked, listened to and ended."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tidemill.worker.machine.slots import Slot
from tidemill.worker.machine.stop import Stop
from tidemill.worker.programs.faults import ItemError, item_step
from tidemill.worker.programs.programs import Programs, ReapResult
from tidemill.worker.programs.shim import is_deep
from tidemill.worker.programs.supervisor import Limits, Supervisor, Verdict

POLL_SECONDS = 0.2
VALUE_FILES = ("tidemill-value.json", "tidemill-value.bin", "tidemill-value.npy")
_READ_BYTES = 1 << 18
_LATEST_BYTES = 2 << 20
_LONG_FILE = 16 << 20
_LONG_ANSWER = 1 << 20
_FIGURES_END = 1 << 62
_END_SECONDS = 1.0
"""Seconds from the end of its answers to the end of the process."""


class Answer(NamedTuple):
    """The shim's answer for an item; see `shim`."""

    n: int
    error: str | None
    code: int
    wall: float
    cpu: float
    peak_kib: int
    out: int
    err: int
    value: Any
    file: str | None

    @classmethod
    def read(cls, answer: Any) -> Answer:
        """Check an answer, and raise `ValueError` if it is not the shim's: the function can write anything to the
        same pipe."""
        if not isinstance(answer, list) or len(answer) != 10:
            raise ValueError("it is no answer")
        n, error, code, wall, cpu, peak_kib, out, err, value, file = answer
        if not (error is None or isinstance(error, str)) or not isinstance(code, int):
            raise ValueError("it has another error or exit code")
        if file is not None and file not in VALUE_FILES:
            raise ValueError("it has another file")
        for figure in (n, wall, cpu, peak_kib, out, err):
            if not isinstance(figure, (int, float)) or not 0 <= figure < _FIGURES_END:
                raise ValueError("it has other figures")
        if value is not None and is_deep(value):
            raise ValueError("it has another value")
        return cls(int(n), error, code, wall, cpu, int(peak_kib), int(out), int(err), value, file)


@cache
def _source() -> str:
    return Path(__file__).with_name("shim.py").read_text()


class ShimProcess:
    """A shim's process and its pipes."""

    supervisor: Supervisor
    """Once it is started."""
    reaped: ReapResult
    """Once it has ended."""

    def __init__(self, programs: Programs, slot: Slot, limits: Limits) -> None:
        self._programs, self._slot, self._limits = programs, slot, limits
        self.wants: list[str] = []
        self._started = False
        self._files: dict[int, int] = {}
        self._descriptors: list[int] = []
        self._buffer = b""
        self._read_to = {1: 0, 2: 0}
        self._hole = {1: 0, 2: 0}
        self.said_from = 0
        """Where the item that runs begins in stderr."""

    def start(self, python: str, env: Mapping[str, str], told: dict[str, Any], stop: Stop) -> Verdict | None:
        """Start it and let it import the module. Returns what failed, or None. Call `end` whatever this raises."""
        work = self._slot.empty("work")
        theirs_in, self._requests = self._pipe()
        self._answers, theirs_out = self._pipe()
        os.set_blocking(self._requests, False)
        for n in (1, 2):
            self._files[n] = os.open(self._slot.folder / f"out{n}", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            self._descriptors.append(self._files[n])
        child = self._programs.start(
            [python, "-c", _source(), str(theirs_in), str(theirs_out)],
            cwd=work,
            env=env,
            stdout=self._files[1],
            stderr=self._files[2],
            pass_fds=(theirs_in, theirs_out),
            home=self._slot.folder,
        )
        for theirs in (theirs_in, theirs_out):
            self._descriptors.remove(theirs)
            os.close(theirs)
        # The memory of the import counts for the first item.
        importing = replace(self._limits, memory_mib=None)
        self.supervisor = Supervisor(self._programs, child, importing, env, time.monotonic())
        self._started = True
        self.tell(json.dumps(told))
        while True:
            for answer in self.answers(POLL_SECONDS):
                if answer[0] == "ready":
                    self.wants, self.supervisor.limits = answer[1], self._limits
                    self.said_from = self.sizes()[1]
                    return None
                self.end()
                return Verdict("start", answer[1], final=True)
            if self.supervisor.exited():
                error, code = self.tail(), self.end()
                error = error or f"the Python of the function ended with {code} while importing it"
                return Verdict("start", error, code, final=True)
            if self.supervisor.check(stop):
                self.end()
                slow = f"killed: its import took more than {self._limits.seconds:g} s"
                return None if stop.raised else Verdict("timeout", slow, final=True)

    def _pipe(self) -> tuple[int, int]:
        both = os.pipe()
        self._descriptors += both
        return both

    def tell(self, message: str) -> None:
        """Send a line; a shim that has ended or does not read is noticed elsewhere."""
        data = f"{message}\n".encode()
        deadline = time.monotonic() + self._limits.seconds
        with suppress(BrokenPipeError):
            while data and select.select([], [self._requests], [], max(0.0, deadline - time.monotonic()))[1]:
                with suppress(BlockingIOError):
                    data = data[os.write(self._requests, data) :]

    def answers(self, seconds: float) -> list[Any]:
        """Answers that have come; waits for the first.

        Raises:
            ItemError: The function has written to the pipe of the answers, or closed it.
        """
        exit_ = self.supervisor.exit_
        listened = [self._answers] if exit_ is None else [self._answers, exit_]
        if self._answers not in select.select(listened, [], [], min(seconds, self.supervisor.pause()))[0]:
            return []
        read = os.read(self._answers, _READ_BYTES)
        *lines, self._buffer = (self._buffer + read).split(b"\n")
        if (not read and not self._ends_soon()) or len(self._buffer) > _LONG_ANSWER:
            raise ItemError("exception", "the function closed or flooded the pipe on which its process answers")
        with item_step("exception", "the function wrote to the pipe on which its process answers"):
            return json.loads(b"[" + b",".join(lines) + b"]")

    def _ends_soon(self) -> bool:
        """True if the process ends soon, now that the pipe of its answers is closed."""
        deadline = time.monotonic() + _END_SECONDS
        while not self.supervisor.exited() and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.supervisor.exited()

    def sizes(self) -> tuple[int, int]:
        return os.fstat(self._files[1]).st_size, os.fstat(self._files[2]).st_size

    def written(self, stream: int, until: int) -> bytes:
        """Bytes written to stdout (1) or stderr (2) since the last call, up to an offset."""
        start = self._read_to[stream]
        if until <= start:
            return b""
        # Output beyond an item's limit is cut anyway; its last bytes are kept because they tell why it failed.
        start = max(start, until - _LATEST_BYTES)
        data = os.pread(self._files[stream], until - start, start)
        self._read_to[stream] = until
        if until - self._hole[stream] > _LONG_FILE:
            # The writer's offset stays where it is: what was read becomes a hole.
            os.ftruncate(self._files[stream], 0)
            self._hole[stream] = until
        return data

    def tail(self) -> str:
        """The end of what the item that runs has written to stderr, or the import."""
        size = self.sizes()[1]
        start = min(size, max(self.said_from, size - 4096))
        return os.pread(self._files[2], size - start, start).decode("utf-8", "replace").strip()

    def end(self) -> int:
        """End it and everything it started; returns its exit code, 0 when it never started or has been ended."""
        code = 0
        if self._started:
            self._started = False
            self.reaped = self.supervisor.end()
            code = self.reaped.exit_code
        while self._descriptors:
            os.close(self._descriptors.pop())
        return code
