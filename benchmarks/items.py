"""Items on this machine: functions and commands, recorded and resumable, compared with tools that keep less or nothing.

The other tools come from PyPI, once, into their own virtual environment in the user's cache. If one is unavailable, the
benchmark says so and skips it. Tools take turns in one run, the median of each counts, and limits are ratios between
them: seconds say more about the machine and what else it does.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import figure
from benchmarks.peers import compiled, installed

ITEMS = 20_000
SIZES = (1_000, 20_000, 100_000, 500_000)
COMMANDS = 1_000
RUNS = 3
RECORD_COSTS = 4
"""Upper limit: the cost of a durable record of every item, relative to a tool that keeps nothing."""
START_COSTS = 1.7
"""Upper limit relative to xargs, which starts a command an item, as we do."""
RECORDED = 0.35
"""Upper limit relative to GNU parallel with its log and its results: it keeps a record of every item, as we do."""
MUST_BEAT = 1
BY_VALUE = 1.3
"""Upper limit: a function of a notebook's cell, relative to the same function of a module."""
TIMEOUT_SECONDS = 600
TIDEMILL = Path(sys.executable).parent / "tidemill"

WORK = """
import hashlib

def digest(uri):
    hashlib.sha256(uri.encode()).hexdigest()
"""
CELL = "def f(x): return x * x"
MAPPED = """
import tidemill
{define}
values = tidemill.Pipeline.local("store", workers=2).map(f, range({count}))
assert sum(values) == sum(x * x for x in range({count}))
"""
LOAD = "import work; items = open('items.txt').read().split(); "
POOL = (
    "import multiprocessing as m\nif __name__ == '__main__':\n    "
    + LOAD
    + ("\n    with m.Pool(2) as p: n = sum(1 for _ in p.imap_unordered(work.digest, items, 1)); assert n == len(items)")
)
JOBLIB = LOAD + "import joblib; joblib.Parallel(n_jobs=2)(joblib.delayed(work.digest)(i) for i in items)"
MEMORY = LOAD + (
    "import joblib; f = joblib.Memory('memory', verbose=0).cache(work.digest); "
    "joblib.Parallel(n_jobs=2)(joblib.delayed(f)(i) for i in items)"
)
RAY = LOAD + (
    "import ray; ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False); f = ray.remote(work.digest); "
    "ray.get([f.remote(i) for i in items])"
)


@dataclass(frozen=True)
class Ran:
    """A finished process: wall seconds, peak memory of it and its descendants in MB (PSS), and the CPU seconds of
    all of them. Compare CPU seconds if the machine also does other work."""

    seconds: float
    megabytes: float
    cpu_seconds: float


def main() -> None:
    """Print tables and figures."""
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as name:
        folder = Path(name)
        (folder / "work.py").write_text(WORK)
        (folder / "cell.py").write_text(CELL)
        env = {**compiled(), "PYTHONPATH": name, "TIDEMILL_SCRATCH": f"{name}/scratch"}
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        functions(folder, env)
        by_value(folder, env)
        commands(folder, env)
        flat(folder, env)
        killed(folder, env)


# ---- functions --------------------------------------------------------------------------------------------------


def functions(folder: Path, env: Mapping[str, str]) -> None:
    """20,000 trivial functions on 2 workers, including start-up."""
    print(f"\n{ITEMS} functions (sha256 of a short text), 2 workers, from the command to its end")
    print(f"{'tool':<34} {'seconds':>8} {'CPU s':>6}  keeps")
    write_items(folder, ITEMS)
    other = competitors()

    def cold(tool: str, code: str) -> Ran:
        shutil.rmtree(folder / "memory", ignore_errors=True)
        return python(folder, env, code, other[tool])

    tools = {
        "tidemill run --function": lambda: tidemill(folder, env, "--function", "work:digest"),
        "the same again": lambda: tidemill(folder, env, "--function", "work:digest", keep=True),
        "multiprocessing, chunks of one": lambda: python(folder, env, POOL),
    }
    if "joblib" in other:
        tools |= {
            "joblib": lambda: cold("joblib", JOBLIB),
            "joblib with Memory": lambda: cold("joblib", MEMORY),
            "the same again, joblib with Memory": lambda: python(folder, env, MEMORY, other["joblib"]),
        }
    ran = in_turns(tools, RUNS)
    if "ray" in other:
        # It is twenty times slower than the rest, so one run is enough.
        ran["Ray, a task an item"] = cold("ray", RAY)
    ours, again = ran["tidemill run --function"], ran["the same again"]
    for label, base, name, kept, limit in (
        ("tidemill run --function", None, "", "every outcome", 0),
        ("the same again", None, "", "every outcome", 0),
        ("multiprocessing, chunks of one", ours, "over-multiprocessing", "nothing", RECORD_COSTS),
        ("joblib", ours, "over-joblib", "nothing", RECORD_COSTS),
        ("joblib with Memory", ours, "over-joblib-with-memory", "results, a folder an item", MUST_BEAT),
        ("the same again, joblib with Memory", again, "again-over-joblib-with-memory", "results", MUST_BEAT),
        ("Ray, a task an item", ours, "over-ray-a-task-an-item", "nothing", MUST_BEAT),
    ):
        if label not in ran:
            print(f"{label:<34} {'-':>8} {'-':>6}  could not be installed")
            continue
        row(label, ran[label], kept)
        if base:
            figure(f"items-20k-functions-{name}", base.seconds / ran[label].seconds, "x", limit)
    memory = tidemill(folder, env, "--function", "work:digest", watch=True)
    figure("items-20k-functions-memory", memory.megabytes, "MB", 110)


def by_value(folder: Path, env: Mapping[str, str]) -> None:
    """`pipeline.map` over 20,000 numbers: a function of a cell, and the same one of a module."""
    print(f"\n{ITEMS} numbers through pipeline.map, 2 workers, from the start of Python to the last value")
    print(f"{'function':<34} {'seconds':>8} {'CPU s':>6}  keeps")

    def mapped(define: str) -> Ran:
        shutil.rmtree(folder / "store", ignore_errors=True)
        return python(folder, env, MAPPED.format(define=define, count=ITEMS))

    ran = in_turns({"of a module": lambda: mapped("from cell import f"), "of a cell": lambda: mapped(CELL)}, RUNS)
    for label, one in ran.items():
        row(label, one, "every value")
    figure("items-20k-map-of-a-cell", ran["of a cell"].seconds / ran["of a module"].seconds, "x", BY_VALUE)


def flat(folder: Path, env: Mapping[str, str]) -> None:
    """The cost per item, from a thousand items to half a million."""
    print(f"\n{'items':>9} {'seconds':>8} {'MB':>6} {'µs an item, start-up taken off':>32}")
    write_items(folder, 1)
    start = best(lambda: tidemill(folder, env, "--function", "work:digest"), RUNS).seconds
    costs, memory = {}, {}
    for count in SIZES:
        write_items(folder, count)
        ran = best(lambda: tidemill(folder, env, "--function", "work:digest", watch=True), 1 if count > ITEMS else RUNS)
        costs[count], memory[count] = max(ran.seconds - start, 0.0) / count * 1e6, ran.megabytes
        print(f"{count:>9} {ran.seconds:>8.2f} {ran.megabytes:>6.0f} {costs[count]:>32.1f}")
    figure("items-microseconds-500k-over-20k", costs[SIZES[-1]] / costs[ITEMS], "x", 1.25)
    figure("items-500k-memory", memory[SIZES[-1]], "MB", 110)
    # A one-second run ends before its peak is measured.
    figure("items-memory-500k-over-100k", memory[SIZES[-1]] / memory[SIZES[-2]], "x", 1.25)


# ---- commands ---------------------------------------------------------------------------------------------------


def commands(folder: Path, env: Mapping[str, str]) -> None:
    """1,000 runs of /bin/true on 2 workers."""
    print(f"\n{COMMANDS} commands (/bin/true), 2 workers, from the command to its end")
    print(f"{'tool':<34} {'seconds':>8} {'CPU s':>6}  keeps")
    write_items(folder, COMMANDS)
    items = (folder / "items.txt").read_bytes()
    results = folder / "results"

    def parallel() -> Ran:
        shutil.rmtree(results, ignore_errors=True)
        kept = ["--joblog", f"{folder}/joblog", "--results", str(results)]
        return run(["parallel", "-j2", *kept, "/bin/true"], folder, env, stdin=items)

    tools = {
        "tidemill run -- /bin/true": lambda: tidemill(folder, env, "--", "/bin/true"),
        "xargs -P2 -n1": lambda: run(["xargs", "-P2", "-n1", "/bin/true"], folder, env, stdin=items),
    }
    if shutil.which("parallel"):
        tools["parallel --joblog --results"] = parallel
    ran = in_turns(tools, RUNS)
    ours = ran["tidemill run -- /bin/true"]
    row("tidemill run -- /bin/true", ours, "every outcome")
    for label, name, kept, limit in (
        ("xargs -P2 -n1", "xargs", "nothing", START_COSTS),
        ("parallel --joblog --results", "parallel", "exit codes, output", RECORDED),
    ):
        if label not in ran:
            print(f"{label:<34} {'-':>8} {'-':>6}  not on this machine (Debian: apt-get install parallel)")
            continue
        row(label, ran[label], kept)
        figure(f"items-1000-commands-over-{name}", ours.seconds / ran[label].seconds, "x", limit)


# ---- killed -----------------------------------------------------------------------------------------------------


def killed(folder: Path, env: Mapping[str, str]) -> None:
    """kill -9 of everything in the middle, then the same command again."""
    print("\nkill -9 of everything in the middle of 200 items of 30 ms, then the same command")
    write_items(folder, 200)
    marks = folder / "marks"
    command = ["--", "sh", "-c", f"sleep 0.03; echo $TIDEMILL_INDEX $(date +%s.%N) >> {marks}"]
    shutil.rmtree(folder / "store", ignore_errors=True)
    process = subprocess.Popen(
        typed(folder, *command), cwd=folder, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (marks.exists() and len(marks.read_text().splitlines()) >= 80) and time.monotonic() < deadline:
        time.sleep(0.01)
    at = time.time()
    for pid in {process.pid, *descendants(process.pid)}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(timeout=TIMEOUT_SECONDS)
    time.sleep(1.0)
    mark = f"{folder}/scratch/".encode()
    orphans = sum(mark in data for data in environments())
    before = finished(marks)
    code = subprocess.run(
        typed(folder, *command),
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    ).returncode
    times: dict[int, int] = {}
    for line in marks.read_text().splitlines():
        times[int(line.split()[0])] = times.get(int(line.split()[0]), 0) + 1
    repeated = [index for index, count in times.items() if count > 1]
    print(f"{len(before)} had ended, {len(repeated)} ran again; {sum(n not in times for n in range(200))} were lost")
    figure("items-killed-repeated-after-a-second", sum(before[index] < at - 1 for index in repeated), "items", 0)
    figure("items-killed-lost", sum(n not in times for n in range(200)), "items", 0)
    figure("items-killed-orphans", orphans, "processes", 0)
    figure("items-killed-exit-code", code, "code", 0)


def finished(marks: Path) -> dict[int, float]:
    """Return when each item ended."""
    return {int(line.split()[0]): float(line.split()[1]) for line in marks.read_text().splitlines()}


# ---- running ----------------------------------------------------------------------------------------------------


def typed(folder: Path, *arguments: str) -> list[str]:
    """Return a `tidemill run` command on 2 workers."""
    options = ["--workers", "2", "--store", f"file://{folder}/store", "--items", "items.txt"]
    return [str(TIDEMILL), "run", *options, *arguments]


def tidemill(folder: Path, env: Mapping[str, str], *arguments: str, watch: bool = False, keep: bool = False) -> Ran:
    """Run a job in a new store, or in the existing one."""
    if not keep:
        shutil.rmtree(folder / "store", ignore_errors=True)
    return run(typed(folder, *arguments), folder, env, watch=watch)


def python(folder: Path, env: Mapping[str, str], code: str, interpreter: Path | None = None) -> Ran:
    """Run a few lines of Python."""
    return run([str(interpreter or sys.executable), "-c", code], folder, env)


def run(
    command: Sequence[str], folder: Path, env: Mapping[str, str], *, stdin: bytes = b"", watch: bool = False
) -> Ran:
    """Run a command to its end. Memory is measured only on request, because measuring takes time."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    peak = _Peak(process.pid) if watch else None
    _, said = process.communicate(stdin, timeout=TIMEOUT_SECONDS)
    seconds = time.monotonic() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(command)[:200]} ended with {process.returncode}: {said.decode()[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ran(seconds, peak.end() if peak else 0.0, cpu)


class _Peak:
    """The largest sum of proportional set sizes of a process and its descendants."""

    def __init__(self, pid: int) -> None:
        self._pid, self._most, self._over = pid, 0, threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.1):
            self._most = max(self._most, sum(map(_pss, {self._pid, *descendants(self._pid)})))

    def end(self) -> float:
        """The peak in MB."""
        self._over.set()
        self._thread.join()
        return self._most / 1e3


def _pss(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        return 0
    return 0


def descendants(pid: int) -> set[int]:
    """Return the processes that a process started, and theirs."""
    found, ahead = set(), [pid]
    while ahead:
        for path in Path(f"/proc/{ahead.pop()}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                children = set(map(int, path.read_text().split())) - found
                found |= children
                ahead += children
    return found


def environments() -> Iterator[bytes]:
    """Yield the environment of every visible process."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        if path.parent.name != str(os.getpid()):
            with contextlib.suppress(OSError):
                yield path.read_bytes()


def competitors() -> dict[str, Path]:
    """Return interpreters that have joblib and Ray, by tool. Each environment is created on first use."""
    found = {tool: installed(tool) for tool in ("joblib", "ray")}
    return {tool: programs / "python" for tool, programs in found.items() if programs}


def best(measure: Callable[[], Ran], runs: int) -> Ran:
    """Return the fastest of some runs."""
    return min((measure() for _ in range(runs)), key=lambda ran: ran.seconds)


def in_turns(tools: Mapping[str, Callable[[], Ran]], runs: int) -> dict[str, Ran]:
    """Return the median run of each tool. They take turns, so that what else the machine does disturbs all of them."""
    ran: dict[str, list[Ran]] = {name: [] for name in tools}
    for _ in range(runs):
        for name, measure in tools.items():
            ran[name].append(measure())
    return {name: sorted(each, key=lambda one: one.seconds)[len(each) // 2] for name, each in ran.items()}


def row(tool: str, ran: Ran, kept: str) -> None:
    """Print a line of a table."""
    print(f"{tool:<34} {ran.seconds:>8.2f} {ran.cpu_seconds:>6.2f}  {kept}", flush=True)


def write_items(folder: Path, count: int) -> None:
    """Write a list of items."""
    with (folder / "items.txt").open("w") as file:
        file.writelines(f"s3://bucket/item-{n:012d}.jpg\n" for n in range(count))
