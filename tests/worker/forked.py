"""Workers as forks of a process that has imported everything already: that costs more than most tests do.

A worker is a process of its own with its own signals, and it ends as an interpreter does. `tests.warm.COLD` starts
interpreters instead, as containers do.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.warm import COLD, ROOT, Fork


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


class Forked(Fork):
    """A fork that runs a module and whose output is read from a file."""

    def __init__(self, module: str, env: Mapping[str, str]) -> None:
        self._said = tempfile.NamedTemporaryFile()  # noqa: SIM115 read at the end
        super().__init__(["-m", module], cwd=ROOT, env=env, stdout=self._said)

    @property
    def stdout(self) -> Iterator[bytes]:
        """What it writes, line by line, until it ends."""
        rest = b""
        with Path(self._said.name).open("rb") as said:
            while True:
                ended = self.poll() is not None
                *lines, rest = (rest + said.read()).split(b"\n")
                yield from lines
                if ended:
                    return
                time.sleep(0.02)

    def communicate(self, timeout: float | None = None) -> tuple[bytes, None]:
        self.wait(timeout)
        return Path(self._said.name).read_bytes(), None

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)
