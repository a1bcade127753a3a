"""`python -m MODULE` as a fork of a process that has imported the worker already: that costs more than most tests do.

It is a process of its own with its own signals, and it ends as an interpreter does. `tests.warm.COLD` starts
interpreters instead, as containers do.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.warm import COLD

ROOT = Path(__file__).parents[2]
WORKER = "tidemill.worker.__main__"
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload([WORKER, __name__])


def start(module: str, env: Mapping[str, str]) -> Forked | subprocess.Popen[bytes]:
    """Start a module with nothing but this environment."""
    if COLD in os.environ:
        return subprocess.Popen(
            [sys.executable, "-m", module],
            env=env,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    return Forked(module, env)


class Forked:
    """A process, with those methods of `Popen` that tests use."""

    def __init__(self, module: str, env: Mapping[str, str]) -> None:
        self._said = tempfile.NamedTemporaryFile()  # noqa: SIM115 read at the end
        self._process = _forks.Process(target=_become, args=(module, dict(env), self._said.name), daemon=True)
        self._process.start()
        assert self._process.pid
        self.pid: int = self._process.pid

    @property
    def stdout(self) -> Iterator[bytes]:
        """What it writes, line by line, until it ends."""
        rest = b""
        with Path(self._said.name).open("rb") as said:
            while True:
                ended = self.returncode is not None
                *lines, rest = (rest + said.read()).split(b"\n")
                yield from lines
                if ended:
                    return
                time.sleep(0.02)

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("a fork", timeout or 0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, None]:
        self.wait(timeout)
        return Path(self._said.name).read_bytes(), None

    def send_signal(self, number: int) -> None:
        # It may end meanwhile.
        with contextlib.suppress(ProcessLookupError):
            if self.returncode is None:
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _become(module: str, env: dict[str, str], output: str) -> None:
    said, nothing = os.open(output, os.O_WRONLY | os.O_APPEND), os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, said), (2, said)):
        os.dup2(source, target)
    for descriptor in (said, nothing):
        os.close(descriptor)
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [module]
    sys.modules.pop(WORKER, None)  # it is run, not imported
    runpy.run_module(module, run_name="__main__", alter_sys=True)
