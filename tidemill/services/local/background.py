"""This machine as a queue that works by itself: a job that is sent is run by a `tidemill run` in the background."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tidemill.clouds.local.desk import Desk
from tidemill.descriptor import Descriptor
from tidemill.services.backend import ArrayState
from tidemill.services.local.backend import LocalBackend

PAUSE_SECONDS = 30.0
"""A run that is told to end gives its programs a few seconds; one that is still there after this is killed."""
# A script's background process ignores SIGINT, and so would the processes of such a program: `pause` sends it.
_MAIN = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from tidemill.cli import main; sys.exit(main())"
)


class HereBackend(LocalBackend):
    """The queue of `Pipeline.local`.

    Each job's work is done by a process of its own, the command line's: a process that has threads, such as a
    notebook's, must not be forked. It ends with the process that has started it.
    """

    has_packages = True

    def __init__(self, descriptor: Descriptor, workers: int | None) -> None:
        super().__init__(descriptor)
        self._workers = workers
        self._runs: dict[str, subprocess.Popen[bytes]] = {}

    def begin(self, job: str) -> bool:
        desk = Desk(self._store, job)
        desk.logs.mkdir(parents=True, exist_ok=True)
        words = ["run", "--job", job, "--store", self._store, "--with-parent"]
        words += [] if self._workers is None else ["--workers", str(self._workers)]
        with self.log(job).open("ab") as log:
            self._runs[job] = subprocess.Popen(
                [sys.executable, "-P", "-c", _MAIN, *words, "--python", sys.executable],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A terminal's Ctrl-C is for the program that has sent the job: it decides what becomes of the job.
                start_new_session=True,
            )
        return True

    def pause(self, job: str) -> bool:
        run = self._runs.get(job)
        if run is None or run.poll() is not None:
            return False
        os.kill(run.pid, signal.SIGINT)
        try:
            run.wait(PAUSE_SECONDS)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
        return True

    def works_on(self, job: str) -> bool:
        # It takes its job's lock only when it has started.
        run = self._runs.get(job)
        return (run is not None and run.poll() is None) or super().works_on(job)

    def failed_children(self, array: ArrayState) -> dict[int, str]:
        job = array.name.rpartition("-r")[0]
        run = self._runs.get(job)
        lines = self.log(job).read_text(errors="replace").splitlines() if run and run.poll() else []
        return dict.fromkeys(super().failed_children(array), lines[-1] if lines else "not running")

    def log(self, job: str) -> Path:
        """Output of the processes that run a job."""
        return Desk(self._store, job).folder / "run.log"
