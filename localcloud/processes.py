"""Processes of this machine, and those that the engine starts."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

LEFT_OUT = "LOCALCLOUD_LEFT_OUT"
"""Environment variable of a provider: paths of properties by their resource's name, as JSON. A resource is taken
without those of them that localcloud does not have; another one that it does not have is refused."""


def alive(pid: int) -> bool:
    """Whether a process runs. A process that has ended but is not yet reaped does not count."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return sys.platform != "linux"


def descendants(pid: int) -> list[int]:
    """Return every process below this one (Linux only; elsewhere ending the daemon must suffice)."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, open_pids = [], [pid]
    while open_pids:
        below = parents.get(open_pids.pop(), [])
        found += below
        open_pids += below
    return found


def serve_plugin(server: Any, stop: Callable[[], None] = lambda: None) -> None:
    """Serve gRPC until the engine ends this process or itself ends. The first line on stdout is the port.

    Args:
        stop: Called before the server stops.
    """
    ended, parent = threading.Event(), os.getppid()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    while not ended.wait(1.0) and os.getppid() == parent:
        pass
    stop()
    server.stop(0.5).wait()
