"""A worker of a local run: the loop of a container, in a process that the keeper has forked."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tidemill.descriptor import WorkerExit
from tidemill.store import Store, Stores
from tidemill.worker.exit_codes import EXPECTED, exit_of
from tidemill.worker.items import ERROR_CHARACTERS
from tidemill.worker.leases.local import LocalLeases, send
from tidemill.worker.loop import Worker
from tidemill.worker.output import also_to, log, write_to
from tidemill.worker.runners import PYTHON, Runners
from tidemill.worker.scratch import Scratch
from tidemill.worker.settings import child_environment
from tidemill.worker.staging import Staging
from tidemill.worker.stop import Stop, StopReason
from tidemill.worker.usage import adopt_orphans


@dataclass(frozen=True)
class Run:
    """A run of workers, as the keeper is asked for it.

    Attributes:
        chunks: (round, chunk) in the order in which they are handed out.
        logs: Folder for what workers print.
        folder: Where modules are imported from.
        reclaim_seconds: Take a worker away that often, as a Spot market would; None for never.
        python: Interpreter of functions; None for `python3` on PATH.
    """

    store: str
    job: str
    chunks: list[tuple[int, int]]
    workers: int
    scratch: str
    logs: str
    folder: str
    reclaim_seconds: float | None = None
    python: str | None = None


def forked(main: Callable[[], int]) -> None:
    """Run `main` in a forked process, which never returns into its parent's program."""
    code = 1
    try:
        code = int(main())
    except BaseException as error:  # a traceback of a fork would be printed as the parent's
        print(f"tidemill: {type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


def worker_main(run: Run, name: str, keeper: socket.socket) -> int:
    """A worker of a local run; see `WorkerExit` for what it returns. Its last error is told to the keeper."""
    stop, last_error = Stop(), [""]
    signal.signal(signal.SIGTERM, lambda *_: stop.set(StopReason.SIGNAL))
    adopt_orphans()

    def note(lines: list[tuple[dict[str, Any], int]]) -> None:
        last_error[-1:] = [line["message"] for line, _ in lines if line.get("level") == "error"][-1:] or last_error[-1:]

    also_to(note)
    try:
        with (Path(run.logs) / f"{name}.jsonl").open("ab") as log:
            forgiving: Any = _Log(log)
            write_to(forgiving)
            os.dup2(log.fileno(), 2)
            code = _serve(run, name, keeper, stop)
    except OSError as error:
        code, last_error[-1] = WorkerExit.STORE_UNAVAILABLE, f"{run.logs}: {error}"
    if code not in (WorkerExit.DONE, WorkerExit.RECLAIMED):
        send(keeper, {"say": "error", "text": last_error[-1][:ERROR_CHARACTERS]})
    return code


def _serve(run: Run, name: str, keeper: socket.socket, stop: Stop) -> int:
    try:
        os.chdir(run.folder)
        store = Store.open(run.store)
        scratch = Scratch(Path(run.scratch), name)
        # Items in a cloud are read by the login of the person who runs this.
        staging = Staging(Stores(store, user_login=True), scratch)
        try:
            runners = Runners(staging, scratch, stop, run.python or PYTHON)
            base_env, leases = child_environment(os.environ), LocalLeases(keeper)
            return Worker(store, leases, runners, scratch=scratch, stop=stop, base_env=base_env, slots=1).run()
        finally:
            staging.close()
            scratch.close()
    except EXPECTED as error:
        log(str(error), "error")
        return exit_of(error)
    except Exception as error:
        log(f"{type(error).__name__}: {error}", "error", traceback=traceback.format_exc())
        return 1


class _Log:
    """A worker's log. If the disk is full, a line is lost, but not the worker."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._file.write(data)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()
