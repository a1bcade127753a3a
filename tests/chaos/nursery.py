"""Forks workers, so that eight of them start in milliseconds: `python -m tests.chaos.nursery`, on a scratch disk of its
own. Each worker is the ordinary one, in a process and session of its own; `skew` seconds are added to its clock."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import select
import signal
import sys
import threading
import time
from datetime import datetime, timedelta
from typing import Any

from tidemill.worker.__main__ import main as work

PR_SET_CHILD_SUBREAPER = 36


def skew_clock(seconds: float) -> None:
    """Shift the time of day that this process sees."""
    real, offset = time.time, timedelta(seconds=seconds)

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + offset

    time.time = lambda: real() + seconds
    for name, module in list(sys.modules.items()):
        if name.startswith("tidemill.") and getattr(module, "datetime", None) is datetime:
            module.datetime = Shifted  # type: ignore[attr-defined]


def worker(order: dict[str, Any]) -> None:
    """Run as the worker of one container. Never returns."""
    code = 1
    try:
        os.setsid()
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, nothing), (1, log), (2, log)):
            os.dup2(source, target)
        faulthandler.register(signal.SIGUSR1, file=2)
        os.environ.clear()
        os.environ.update(order["env"])
        if order["skew"]:
            skew_clock(order["skew"])
        code = int(work(order["env"]))
        sys.stdout.flush()
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
        raise
    finally:
        os._exit(code)


def say(**what: Any) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def main() -> None:
    """Orders are JSON lines: {"start": id, env, skew, log} and {"kill": id, "signal": n}. The end of stdin ends it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    assert threading.active_count() == 1, "a fork takes no threads with it"
    there: dict[int, str] = {}
    buffer = b""
    while True:
        if select.select([0], [], [], 0.02)[0]:
            data = os.read(0, 1 << 16)
            if not data:
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                order = json.loads(line)
                if "kill" in order:
                    for pid in [pid for pid, name in there.items() if name == order["kill"]]:
                        os.kill(pid, signal.Signals(order["signal"]))
                    continue
                pid = os.fork()
                if pid == 0:
                    worker(order)
                there[pid] = order["start"]
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in there:
                say(ended=there.pop(pid), code=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
