"""A preview of a stack's program, compared with a flat program that declares the same resources without components.

Both run in turn under the real engine with localcloud's provider, and the fastest run of each counts: on a machine that
also does other work, that run was disturbed least. Every process starts as it does for a user, without the forks that
shorten tests. Seconds are those of the whole `pulumi preview`; memory and CPU seconds are those of the program's own
process. The provider costs both the same, and in Python more than the real one in Go, so the table shows the program's
share of the whole.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

from benchmarks import flat
from benchmarks.figures import figure
from localcloud.cloud import Cloud
from ops.project import ROOT
from tests.components.stacks import settings
from tests.harness import Project
from tests.warm import COLD

QUEUES = (2, 10, 50)
RUNS = 5
RATIO = 1.2
STACK = "demo-aws"

TELL = """
import atexit
import os
import pathlib
import time


def _tell():
    memory = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    pathlib.Path({path!r}).write_text(f"{{memory.split()[1]}} {{time.process_time()}}")


atexit.register(_tell)
"""


@dataclass(frozen=True)
class Figures:
    """The cost of one preview."""

    seconds: float
    cpu_seconds: float
    megabytes: float


class Program:
    """A program in its own project.

    Args:
        folder: An empty folder.
        env: Environment of localcloud's commands.
        config: The stack's config, with full keys.
        text: The program, which reports its own cost when it ends.
    """

    def __init__(self, folder: Path, env: dict[str, str], config: dict[str, Any], text: str) -> None:
        folder.mkdir()
        self._usage = folder / "usage"
        self.project = Project(folder, env, STACK)
        with self.project.config() as own:
            own.clear()
            own.update(config)
        main = folder / "__main__.py"
        main.unlink()
        main.write_text(TELL.format(path=str(self._usage)) + text)

    def preview(self) -> Figures:
        """Preview once."""
        self._usage.unlink(missing_ok=True)
        start = time.perf_counter()
        self.project.run("preview").ok()
        seconds = time.perf_counter() - start
        kib, cpu = self._usage.read_text().split()
        return Figures(seconds, float(cpu), float(kib) / 1024)

    def planned(self) -> dict[tuple[str, str], str]:
        """Return the inputs of everything that it would create, by type and name."""
        events = self.project.run("preview", events=True).ok().events
        made = [event["resourcePreEvent"]["metadata"] for event in events if "resourcePreEvent" in event]
        return {(m["type"], m["urn"].rpartition("::")[2]): _unnamed(m["new"]["inputs"]) for m in made if _is_aws(m)}


def _is_aws(metadata: Mapping[str, Any]) -> bool:
    return metadata["type"].startswith("aws:")


def _unnamed(inputs: dict[str, Any]) -> str:
    """Return inputs as text to compare, without the random end of automatic names. A list of unknown values equals
    an unknown list.
    """
    text = re.sub(r"-[0-9a-f]{7}\b", "-0000000", json.dumps(inputs, sort_keys=True))
    return re.sub(rf'\[("{UNKNOWN}"(, )?)+\]', f'"{UNKNOWN}"', text)


def main() -> None:
    """Print a table and the figures."""
    print(f"{'queues':>6} {'program':<12} {'seconds':>8} {'of it the program':>18} {'its memory':>11}")
    for queues in QUEUES:
        with programs(queues) as (ours, other):
            check_same(ours, other)
            runs = [(ours.preview(), other.preview()) for _ in range(RUNS)]
        ours_took, other_took = (_least([pair[which] for pair in runs]) for which in (0, 1))
        for name, took in (("components", ours_took), ("flat", other_took)):
            print(
                f"{queues:>6} {name:<12} {took.seconds:>8.2f} {took.cpu_seconds:>12.2f} s CPU {took.megabytes:>8.0f} MB"
            )
        figure(f"preview-{queues}-queues-time", ours_took.seconds / other_took.seconds, "x", RATIO)
        figure(f"preview-{queues}-queues-memory", ours_took.megabytes / other_took.megabytes, "x", RATIO)


def config(queues: int) -> dict[str, Any]:
    """Return the config of the demo's stack with this number of queues."""
    found = settings(STACK)
    queue = found["tidemill:queues"]["cpu"]
    return found | {"tidemill:queues": {f"cpu-{number}": queue for number in range(1, queues + 1)}}


@contextlib.contextmanager
def programs(queues: int) -> Iterator[tuple[Program, Program]]:
    """Yield ours and the flat program, each on its own localcloud."""
    stack = config(queues)
    text = flat.write(flat.record(stack))
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as scratch, Cloud(Path(scratch, "cloud")) as cloud:
        env = {**cloud.env, COLD: "1"}
        ours = Program(Path(scratch, "ours"), env, stack, (ROOT / "__main__.py").read_text())
        yield ours, Program(Path(scratch, "flat"), env, stack, text)


def check_same(ours: Program, other: Program) -> None:
    """Check that both plan the same resources with the same inputs; otherwise the ratio means nothing.

    Raises:
        RuntimeError: The plans differ.
    """
    left, right = ours.planned(), other.planned()
    different = sorted(str(key) for key in left.keys() | right.keys() if left.get(key) != right.get(key))
    if different:
        raise RuntimeError(f"the programs differ in {len(different)} of {len(left)} resources: {different[:5]}")


def _least(runs: list[Figures]) -> Figures:
    return Figures(
        min(run.seconds for run in runs), min(run.cpu_seconds for run in runs), min(run.megabytes for run in runs)
    )
