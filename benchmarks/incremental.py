"""20,000 files with 10 changed: `run --changed`, and other tools on the same files.

The other tools come from PyPI, once, into their own virtual environment in the user's cache. If one is unavailable, the
benchmark says so and skips it. Each looks at files that it has seen before: joblib.Memory calls a function that hashes
its file, Snakemake only says what it would run (`-n`). Requests on a store are counted by
`tests/unit/client/results/test_shared_results.py`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.figures import figure
from benchmarks.peers import compiled, installed

FILES, CHANGED, RUNS = 20_000, 10, 3
MOST_SECONDS = 1.5
TIMEOUT_SECONDS = 900
TIDEMILL = Path(sys.executable).parent / "tidemill"
WORK = """
import hashlib, pathlib

def digest(input):
    return hashlib.sha256(pathlib.Path(input).read_bytes()).hexdigest()
"""
MEMORY = """
import glob, hashlib, joblib, pathlib, work
f = joblib.Memory("memory", verbose=0).cache(lambda path, content: work.digest(path))
for path in sorted(glob.glob("in/*")):
    f(path, hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest())
"""
SNAKEFILE = """
names, = glob_wildcards("in/{name}.txt")
rule all:
    input: expand("out/{name}.txt", name=names)
rule one:
    input: "in/{name}.txt"
    output: "out/{name}.txt"
    shell: "sha256sum < {input} > {output}"
"""


def main() -> None:
    """Print a table and figures."""
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as name:
        folder = Path(name)
        (folder / "work.py").write_text(WORK)
        (folder / "Snakefile").write_text(SNAKEFILE)
        (folder / "in").mkdir()
        for number in range(FILES):
            (folder / f"in/{number:05d}.txt").write_text(f"{number}\n")
        # Files that were written a moment ago are read again: they may be written once more within a tick of the clock.
        time.sleep(2.5)
        env = {
            **compiled(),
            "PYTHONPATH": name,
            "TIDEMILL_SCRATCH": f"{name}/scratch",
            "XDG_CACHE_HOME": f"{name}/cache",
        }
        print(f"\n{FILES} files, {CHANGED} of them changed since the last run")
        print(f"{'tool':<34} {'seconds':>8}")
        _row("tidemill run, all of them", _timed(lambda: _tidemill(folder, env)))
        ours = _median(lambda: _tidemill(folder, env, "--changed"), folder)
        _row("tidemill run --changed", ours)
        figure("incremental-20k-seconds", ours, "s", MOST_SECONDS)
        _others(folder, env, ours)


def _others(folder: Path, env: Mapping[str, str], ours: float) -> None:
    if programs := installed("joblib"):
        memory = [str(programs / "python"), "-c", MEMORY]
        _run(memory, folder, env)
        theirs = _median(lambda: _run(memory, folder, env), folder)
        _row("joblib.Memory, keyed by content", theirs)
        figure("incremental-20k-over-joblib-memory", ours / theirs, "x", 1)
    else:
        print(f"{'joblib.Memory':<34} could not be installed")
    if programs := installed("snakemake"):
        (folder / "out").mkdir()
        for number in range(FILES):
            (folder / f"out/{number:05d}.txt").touch()
        snakemake = [
            str(programs / "python"),
            "-m",
            "snakemake",
            "-n",
            "-q",
            "--cores",
            "2",
            "--rerun-triggers",
            "mtime",
        ]
        theirs = _timed(lambda: _run(snakemake, folder, env))
        _row("snakemake -n, by time", theirs)
        figure("incremental-20k-over-snakemake-n", ours / theirs, "x", 1)
    else:
        print(f"{'snakemake -n':<34} could not be installed")


def _tidemill(folder: Path, env: Mapping[str, str], *flags: str) -> None:
    _run([str(TIDEMILL), "run", "--name", "digests", "--items", "in", "--function", "work:digest", *flags], folder, env)


def _median(call: Callable[[], None], folder: Path) -> float:
    """The median time of some calls, before each of which ten files change."""
    times = []
    for turn in range(RUNS):
        for number in range(0, FILES, FILES // CHANGED):
            (folder / f"in/{number:05d}.txt").write_text(f"{number} {turn} {time.time_ns()}\n")
        times.append(_timed(call))
    return sorted(times)[RUNS // 2]


def _timed(call: Callable[[], None]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def _run(command: list[str], folder: Path, env: Mapping[str, str]) -> None:
    subprocess.run(
        command,
        cwd=folder,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )


def _row(tool: str, seconds: float) -> None:
    print(f"{tool:<34} {seconds:>8.2f}", flush=True)
