"""What a queue does for a worker, without a queue: a job in a store on disk, a container's environment, a machine's
notice. Shared by the tests of this folder."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.stored import StoredJob, submitted
from tests.worker.forked import Forked, start
from tidemill.ledger import Outcome
from tidemill.store import Store

Process = Forked | subprocess.Popen[bytes]
SECONDS = 90
"""The longest that any worker of these tests may run."""


@dataclass
class Team:
    """A store on disk and a scratch volume."""

    root: Path
    workers: list[Process] = field(default_factory=list)

    @property
    def store(self) -> Store:
        return Store.open(f"file://{self.root}/store")

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    def job(self, items: list[str], command: list[str], chunk_size: int = 100, **spec: Any) -> TeamJob:
        """Submit a job, as far as the store is concerned."""
        return TeamJob(**vars(submitted(self.store, items, chunk_size, command=command, **spec)), team=self)

    def end(self) -> None:
        """End every worker that a test left, and its processes."""
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait(timeout=60)


@dataclass
class TeamJob(StoredJob):
    """A submitted job of a team."""

    team: Team

    def environment(self, child: int = 0, delivery: int = 1, **extra: str) -> dict[str, str]:
        """A container's environment, as the job definition, the submit and Batch make it."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/",
            "FROM_THE_IMAGE": "yes",
            "TIDEMILL_STORE": self.team.store.uri,
            "TIDEMILL_SCRATCH": str(self.team.scratch),
            "TIDEMILL_JOB": self.spec.job,
            "TIDEMILL_ROUND": "0",
            "TIDEMILL_ARRAY": "0",
            "TIDEMILL_JOB_SHA256": self.job_sha256,
            "TIDEMILL_ROUND_SHA256": self.round_sha256,
            "AWS_BATCH_JOB_ID": f"11111111-aaaa:{child}",
            "AWS_BATCH_JOB_ARRAY_INDEX": str(child),
            "AWS_BATCH_JOB_ATTEMPT": str(delivery),
            **extra,
        }

    def start(self, child: int = 0, delivery: int = 1, module: str = "tidemill.worker", **extra: str) -> Process:
        """Start a worker, or a mutant of it."""
        worker = start(module, self.environment(child, delivery, **extra))
        self.team.workers.append(worker)
        return worker

    def run(self, child: int = 0, delivery: int = 1, **extra: str) -> Ran:
        """Run a worker to its end."""
        return ran(self.start(child, delivery, **extra))

    def outcomes(self) -> list[Outcome]:
        return list(self.ledger.outcomes())

    def outputs(self, outcome: Outcome) -> dict[str, bytes]:
        """The files of an outcome, by name."""
        assert outcome.output is not None
        folder = Path(outcome.output.removeprefix("file://"))
        return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@dataclass
class Ran:
    """A worker that ended."""

    code: int
    lines: list[dict[str, Any]]

    def messages(self, **labels: Any) -> list[str]:
        """Messages of the lines with these labels."""
        return [line["message"] for line in self.lines if labels.items() <= line.items()]


def ran(worker: Process) -> Ran:
    """Wait for a worker's end. Every line it wrote must be JSON."""
    out, _ = worker.communicate(timeout=SECONDS)
    assert worker.returncode is not None
    return Ran(worker.returncode, [json.loads(line) for line in out.splitlines()])


def until(condition: Any, what: str, seconds: float = 60) -> Any:
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def sh(script: str) -> list[str]:
    """The command that runs a script."""
    return ["sh", "-c", script]


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def end_process(pid: int) -> None:
    """End a process that a killed worker left behind."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill(worker: Process, program: int) -> None:
    """Kill a worker, and the program that it leaves behind."""
    worker.kill()
    worker.communicate(timeout=60)
    end_process(program)
    until(lambda: not alive(program), "the program's end")


class Machine:
    """What a machine on AWS has for its containers: a notice once it is given.

    Args:
        folder: Where.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "notice"
        self.environment = {
            "TIDEMILL_NOTICE": str(self._file),
            "TIDEMILL_RECLAIM_POLL_SECONDS": "0.1",
            "TIDEMILL_DRAIN_SECONDS": "1",
        }
        """Of a container on it."""

    def give_notice(self, seconds_left: float = 120) -> None:
        """Give the reclaim notice."""
        ends = datetime.now(UTC) + timedelta(seconds=seconds_left)
        said = json.dumps({"action": "terminate", "time": ends.strftime("%Y-%m-%dT%H:%M:%SZ")})
        self._file.with_suffix(".part").write_text(said)
        self._file.with_suffix(".part").rename(self._file)
