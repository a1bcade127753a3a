"""A worker of a local run: the loop of a container, in a process that the keeper has forked."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import traceback
from pathlib import Path
from typing import IO, Any

from tidemill.descriptor import WorkerExit
from tidemill.secrets.local import LocalSecrets
from tidemill.services.local.lease import LocalLeases, Run, send
from tidemill.store import Store, Stores
from tidemill.worker.chunks.running_items import ERROR_CHARACTERS
from tidemill.worker.exit_codes import EXPECTED, exit_of
from tidemill.worker.items.runners import PYTHON, Runners
from tidemill.worker.items.staging import Staging
from tidemill.worker.loop import Worker
from tidemill.worker.machine.scratch import Scratch
from tidemill.worker.machine.stop import Stop, StopReason
from tidemill.worker.machine.usage import adopt_orphans
from tidemill.worker.output import also_to, log, write_to
from tidemill.worker.settings import child_environment


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
            runners = Runners(
                staging, scratch, stop, run.python or PYTHON, lambda _, names: LocalSecrets().of_job(names)
            )
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
