"""An S3 that takes little of the machine: what a benchmark reads from it is the reader's own figure.

A request costs it 0.05 ms of CPU, where versitygw takes 0.6 ms (measured here, 10,000 ranges of 1.4 KB). It answers
reads only, and of a folder that no longer changes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from localcloud.engine.go import build

SOURCES = Path(__file__).parent / "still_s3"
TICKS = os.sysconf("SC_CLK_TCK")


class Still:
    """A running server.

    Attributes:
        environment: The variables with which a client finds it, whatever the bucket's name.
    """

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self._process = process
        self.environment: Mapping[str, str] = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-west-2",
        }

    @property
    def cpu_seconds(self) -> float:
        """What it has taken so far (proc(5): utime and stime, after the program's name in parentheses)."""
        told = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(told[11]) + int(told[12])) / TICKS


@contextmanager
def still(folder: Path) -> Iterator[Still]:
    """Serve what a folder holds now.

    Raises:
        EngineError: Go is missing, or the build failed.
    """
    command = [str(build("still S3", SOURCES, "ten seconds") / "still_s3"), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Still(process, int(process.stdout.readline()))
        finally:
            process.kill()
