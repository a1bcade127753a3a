"""State: what it costs a program that runs, and a training that starts."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import figure
from localcloud.cloud import Cloud
from tests.e2e.team import Team as Pipeline
from tests.e2e.team import team_up
from tests.worker.containers import Team
from tidemill.descriptor import WorkerExit

RUNS = 5
STARTS = 12
"""Other work on the machine adds to both of what is compared: the least of many counts."""
PROGRAM = """
import os, pathlib, sys, time
folder, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2])
content, began, spent, saved = os.urandom(16 * 2**20), time.monotonic(), 0.0, 0
while spent < seconds:
    # The same work, however long it takes.
    turn = time.thread_time()
    sum(range(200_000))
    spent += time.thread_time() - turn
    if spent > 2 * saved:
        (folder / "new").write_bytes(content)
        (folder / "new").rename(folder / "checkpoint")
        saved += 1
print("took", time.monotonic() - began)
"""
"""Works for some seconds of CPU and writes a checkpoint of 16 MiB in every two of them."""


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        slowed(Path(name, "workers"))
        started(Path(name))


def slowed(folder: Path) -> None:
    """A program with a snapshot every 3 s, by turns with the same program without state."""
    took: dict[bool, list[float]] = {True: [], False: []}
    used: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(2 * RUNS):
        kept = turn % 4 in (1, 2)
        place = folder / str(turn)
        place.mkdir(parents=True)
        where = "{state}" if kept else "{output}"
        settings = {"state": {"snapshot_seconds": 3}, "spec_version": 4} if kept else {}
        job = Team(place).job(["x"], [sys.executable, "-c", PROGRAM, where, "6"], **settings)
        before = cpu_of_children()
        ended = job.run()
        used[kept].append(cpu_of_children() - before)
        assert ended.code == WorkerExit.DONE
        (said,) = (line for line in ended.messages() if line.startswith("took "))
        took[kept].append(float(said.split()[1]))
    print(f"a program that works for 6 s of CPU: {min(took[False]):.2f} s, with state {min(took[True]):.2f} s")
    figure("state-wall-over-none", min(took[True]) / min(took[False]), "x", 1.03)
    # Other work on the machine changes this one less.
    figure("state-cpu-over-none", min(used[True]) / min(used[False]), "x", 1.03)


def cpu_of_children() -> float:
    """Seconds of CPU of workers that have ended, and of their programs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def started(folder: Path) -> None:
    """From typing `train` or `submit` until the program runs, on a machine of localcloud that is there."""
    with Cloud(folder / "localcloud") as cloud:
        (folder / "stack").mkdir()
        team = team_up(cloud, folder / "stack")
        script = "import os, time; open(os.environ['TIDEMILL_OUTPUT'] + '/t', 'w').write(str(time.time()))"
        program = (sys.executable, "-c", script)
        ways: dict[str, Callable[[int], list[str]]] = {
            "submit": lambda n: ["submit", "--queue", "cpu", "--name", f"s{n}", "--json", "x", "--", *program],
            "train": lambda n: ["train", "--queue", "cpu", "--name", f"t{n}", "--json", "--", *program],
        }
        took: dict[str, list[float]] = {way: [] for way in ways}
        until_it_runs(team, ways["submit"](STARTS))
        for n in range(STARTS):
            for way in sorted(ways, reverse=n % 2 == 0):
                took[way].append(until_it_runs(team, ways[way](n)))
    submit, train = (min(took[way]) for way in ("submit", "train"))
    print(f"until the program runs: submit {submit:.2f} s, train {train:.2f} s")
    figure("state-train-over-submit", train - submit, "s", 0.3)


def until_it_runs(team: Pipeline, arguments: list[str]) -> float:
    """Seconds from a command to the first moment of the program that it sends."""
    began = time.time()
    job = json.loads(team.tidemill(*arguments))["job"]
    team.tidemill("wait", job)
    (outcome,) = team.results(job)
    return float(team.read(outcome["output"] + "t").decode()) - began
