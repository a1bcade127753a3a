"""Measures the GPUs that an item was given: their memory and how busy they are, sampled by `nvidia-smi`.

It is asked about devices, not processes: inside a container the process ids that the driver knows are the host's. So
the figures are an item's own as long as its GPUs are. Fields: `nvidia-smi --help-query-gpu`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tidemill.worker.output import log

SECONDS = 3.0
"""Seconds between two samples: starting nvidia-smi costs a good part of a second on some machines."""
ASK_SECONDS = 20.0
FAILURES = 3
"""Failed samples in a row after which no more are taken."""
VARIABLE = "CUDA_VISIBLE_DEVICES"
QUERY = ("--query-gpu=index,uuid,memory.used,utilization.gpu", "--format=csv,noheader,nounits")
_DRIVER_FOLDER = "/usr/local/nvidia/bin"
"""Where Container-Optimized OS keeps it (https://docs.cloud.google.com/container-optimized-os/docs/how-to/run-gpus)."""
Run = Callable[[Sequence[str], Mapping[str, str], float], str]


class GpuUse(NamedTuple):
    """The use of some GPUs; None where the driver does not report it."""

    memory_mib: float | None
    """The largest memory in use, all of them together."""
    percent: float | None
    """Mean share of time in which they were computing."""


class _Gpu(NamedTuple):
    number: str
    uuid: str
    memory_mib: float | None
    percent: float | None

    def is_one_of(self, names: Sequence[str]) -> bool:
        """True if the GPU is named, as CUDA reads names: an index, or the beginning of a UUID."""
        return any(name == self.number or (name.startswith("GPU-") and self.uuid.startswith(name)) for name in names)


class Window:
    """Samples of some GPUs from one moment to another."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._memory: float | None = None
        self._percents: list[float] = []

    def add(self, seen: Sequence[_Gpu]) -> None:
        # Names of GPU parts (MIG) match no device: then all GPUs of the container are sampled.
        ours = [gpu for gpu in seen if gpu.is_one_of(self.names)] or seen
        memory = [gpu.memory_mib for gpu in ours if gpu.memory_mib is not None]
        if memory:
            self._memory = max(self._memory or 0.0, sum(memory))
        self._percents += [gpu.percent for gpu in ours if gpu.percent is not None]

    @property
    def use(self) -> GpuUse | None:
        percent = sum(self._percents) / len(self._percents) if self._percents else None
        return None if self._memory is None and percent is None else GpuUse(self._memory, percent)


class GpuWatch:
    """Samples a container's GPUs while items that use some run. A worker has one.

    `run` runs a program with an environment and a time limit and returns what it prints.
    """

    def __init__(self, run: Run, seconds: float = SECONDS) -> None:
        self._run, self._seconds = run, seconds
        self._wanted = threading.Condition()
        self._open: dict[Window, Mapping[str, str]] = {}
        self._thread: threading.Thread | None = None
        self._failures = 0

    @classmethod
    def find(cls, run: Run, root: Path = Path("/")) -> GpuWatch | None:
        """A watch if the container has a GPU, else None."""
        return cls(run) if any((root / "dev").glob("nvidia[0-9]*")) else None

    def open(self, env: Mapping[str, str], asked: bool) -> Window | None:
        """Begin to watch for an item, whose environment names its GPUs; None when it was given no GPU."""
        given = env.get(VARIABLE)
        names = [name.strip() for name in (given or "").split(",") if name.strip() not in ("", "-1")]
        if not (names if given is not None else asked) or self._failures >= FAILURES:
            return None
        window = Window(names)
        with self._wanted:
            self._open[window] = env
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="gpus", daemon=True)
                self._thread.start()
            self._wanted.notify()
        return window

    def close(self, window: Window | None) -> GpuUse | None:
        """End a window; returns its use, which an item shorter than the time between samples may lack."""
        if window is None:
            return None
        with self._wanted:
            self._open.pop(window, None)
            return window.use

    def _watch(self) -> None:
        while self._failures < FAILURES:
            with self._wanted:
                while not self._open:
                    self._wanted.wait()
                windows = list(self._open)
                env = self._open[windows[-1]]
            asked_at = time.monotonic()
            seen = self._sample(env)
            with self._wanted:
                # Windows that were opened meanwhile began after the driver was asked.
                for window in windows:
                    if window in self._open and seen:
                        window.add(seen)
            time.sleep(max(0.0, asked_at + self._seconds - time.monotonic()))

    def _sample(self, env: Mapping[str, str]) -> list[_Gpu]:
        path = os.pathsep.join(filter(None, [env.get("PATH", os.defpath), _DRIVER_FOLDER]))
        program = shutil.which("nvidia-smi", path=path)
        try:
            if program is None:
                raise FileNotFoundError("there is no nvidia-smi (driver capability: utility)")
            seen = _parse(self._run([program, *QUERY], env, ASK_SECONDS))
            self._failures = 0
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._failures = FAILURES if program is None else self._failures + 1
            if self._failures >= FAILURES:
                log(f"GPU use is not recorded: {error}", "warning")
            return []
        return seen


def _parse(text: str) -> list[_Gpu]:
    gpus = []
    for line in text.splitlines():
        index, uuid, memory, percent = (field.strip() for field in line.split(","))
        gpus.append(_Gpu(index, uuid, _number(memory), _number(percent)))
    return gpus


def _number(text: str) -> float | None:
    """The driver answers `[N/A]` or `[Not Supported]` for what it does not know."""
    return None if text.startswith("[") else float(text)
