"""Reads the capacity of this container or machine: CPUs, memory and GPUs, as its cgroup and the kernel say.

cgroup v2: https://docs.kernel.org/admin-guide/cgroup-v2.html (``cpu.max``, ``memory.max``); v1 (``cpu.cfs_quota_us``,
``memory.limit_in_bytes``): https://docs.kernel.org/admin-guide/cgroup-v1/memory.html.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidemill.capacity import fitting
from tidemill.descriptor import Resources

_UNLIMITED = 1 << 60


@dataclass(frozen=True)
class Capacity:
    """CPUs, memory and GPUs that items can have."""

    cpus: float
    memory_mib: int
    gpus: tuple[str, ...] = ()
    """Names by which a program is given a GPU (``CUDA_VISIBLE_DEVICES``)."""

    @classmethod
    def read(cls, root: Path = Path("/"), env: Mapping[str, str] = os.environ) -> Capacity:
        """Read it from below `root`, and the assigned GPUs from ``CUDA_VISIBLE_DEVICES`` in `env`."""
        return cls(_cpus(root), _memory(root) // 2**20, _gpus(root, env))

    def slots(self, item: Resources, worker_mib: int = 0) -> int:
        """How many such items run side by side, at least one, next to a worker that takes `worker_mib`."""
        return max(1, fitting(self.cpus, self.memory_mib - worker_mib, len(self.gpus), item))


def _cpus(root: Path) -> float:
    there = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    group = root / "sys/fs/cgroup"
    words = _text(group / "cpu.max").split()
    if not words:
        words = [_text(group / f"cpu/cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    try:
        quota, period = int(words[0]), int(words[1])
    except (ValueError, IndexError):
        return there
    return min(there, quota / period) if quota > 0 and period > 0 else there


def _memory(root: Path) -> int:
    group = root / "sys/fs/cgroup"
    limits = [_text(group / "memory.max"), _text(group / "memory/memory.limit_in_bytes")]
    bounds = [int(text) for text in limits if text.strip().isdigit() and int(text) < _UNLIMITED]
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            bounds.append(int(line.split()[1]) * 1024)
    return min(bounds, default=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _gpus(root: Path, env: Mapping[str, str]) -> tuple[str, ...]:
    assigned = env.get("CUDA_VISIBLE_DEVICES")
    if assigned is not None:
        return tuple(name.strip() for name in assigned.split(",") if name.strip() not in ("", "-1"))
    numbers = [path.name.removeprefix("nvidia") for path in (root / "dev").glob("nvidia[0-9]*")]
    return tuple(sorted(numbers, key=int))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
