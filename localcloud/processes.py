"""Processes of this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path


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
