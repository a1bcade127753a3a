"""`tidemill run` as people type it, in a folder of a test."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from tests.warm import ran
from tests.worker.containers import alive
from tidemill import cli
from tidemill.ledger import Ledger, Outcome
from tidemill.services.local.backend import describe_machine, publish

SECONDS = 120
"""The longest that a program of these tests may run."""
TIDEMILL = [sys.executable, "-c", "import sys; from tidemill.cli import main; sys.exit(main())"]


class Here:
    """A folder in which to run `tidemill run`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / ".tidemill"
        self.started: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        scratch = {"TIDEMILL_SCRATCH": str(self.folder / "scratch")}
        return {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(self.folder), **scratch}

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        run = subprocess.Popen(
            [*TIDEMILL, "run", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.started.append(run)
        return run

    def type(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return ran([*TIDEMILL, *arguments], cwd=self.folder, env=self.environment, timeout=SECONDS)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.type("run", *arguments)

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command that starts no process, in this one."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with (
            contextlib.chdir(self.folder),
            patch.dict(os.environ, self.environment, clear=True),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = cli.main([*arguments])
        said, told = (each.detach().getvalue().decode() for each in (out, err))
        return subprocess.CompletedProcess(arguments, code, said, told)

    @property
    def ledger(self) -> Ledger:
        (job,) = [path.parent.name for path in self.store.glob("jobs/*/job.json")]
        descriptor = describe_machine(self.store.as_uri(), 1, 1024, 0, 1)
        return Ledger(publish(descriptor), job)

    def outcomes(self) -> list[Outcome]:
        return list(self.ledger.outcomes())

    def items(self, count: int) -> str:
        path = self.folder / "items.txt"
        path.write_text("".join(f"item-{n}\n" for n in range(count)))
        return str(path)

    def marks(self) -> list[list[str]]:
        """Lines that the items appended to the file `marks`."""
        path = self.folder / "marks"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def processes(self) -> list[int]:
        """All processes that still run in or for this folder. The environment of a fork is not in /proc."""
        mark = os.fsencode(str(self.folder))
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    said = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                    said += os.fsencode(os.readlink(entry / "cwd"))
                    if mark in said and alive(int(entry.name)):
                        found.append(int(entry.name))
        return found
