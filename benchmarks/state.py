"""State: what kills cost an item, and what saving and restoring cost, on a real S3 server.

The server is versitygw over a folder of this machine (tests/store/servers.py), so nothing here is the speed of a
network. Workers and programs are real processes; the machines that are taken away are not. `BENCH_KILLS` sets the
number of kills (200) and `BENCH_STATE_MIB` the size of the state (2,048).
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import obstore

from benchmarks.figures import figure
from benchmarks.peers import installed, s5cmd, s5cmd_environment
from tests.store.servers import BUCKET, environment, versitygw
from tests.worker.containers import Machine, Team, TeamJob
from tidemill import layout
from tidemill.descriptor import WorkerExit
from tidemill.state import Saver, Snapshots, choose, restore, scan
from tidemill.store import Store

KILLS = int(os.environ.get("BENCH_KILLS", "200"))
SIDE_BY_SIDE = 2
EVERY = 20
"""Steps from one checkpoint of the program to the next."""
PROGRAM = Path(__file__).parents[1] / "tests" / "worker" / "sgd.py"
STATE_MIB = int(os.environ.get("BENCH_STATE_MIB", "2048"))
FILES = 64
PARTS = ("put", "save", "get", "restore")
RUNS = 2
LARGE = "large-00000000"
CHANGES = 100
TIMEOUT_SECONDS = 900


def main() -> None:
    """Print the table and the figures."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        killed(Path(name, "kills"))
        with versitygw(Path(name, "server")) as server:
            env = os.environ | environment(server, server.port)
            transferred(Path(name), env)


# ---- kills -----------------------------------------------------------------------------------------------------------


def killed(folder: Path) -> None:
    """Kill an item again and again: its worker, its worker and its program at once, and with a notice."""
    undisturbed = _job(folder / "calm", "0")
    assert undisturbed.run().code == WorkerExit.DONE
    wanted = undisturbed.outputs(undisturbed.outcomes()[0])["weights"]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        runs: list[Kills] = []
        while (count := sum(run.kills for run in runs)) < KILLS:
            wanted_runs = range(len(runs), len(runs) + 2 * SIDE_BY_SIDE)
            runs += pool.map(lambda n: Kills(folder / str(n), n).run(), wanted_runs)
    print(f"\n{count} kills of {len(runs)} items that train for 200 steps and save every {EVERY}")
    figure("state-kills", count, "kills", KILLS, higher_is_better=True)
    figure("state-other-weights", sum(run.weights != wanted for run in runs), "items", 0)
    figure("state-repeated-steps", max(step for run in runs for step in run.repeated), "steps", EVERY)
    figure("state-repeated-after-notice", max(step for run in runs for step in run.after_notice), "steps", 0)


def _job(folder: Path, pause: str) -> TeamJob:
    folder.mkdir(parents=True)
    command = [sys.executable, str(PROGRAM), "{state}", "{output}", pause, "commit", "save-at-term"]
    settings = {"snapshot_seconds": 1}
    return Team(folder).job(["x"], command, state=settings, spec_version=4)


class Kills:
    """One item that is killed again and again until it has its outcome all the same."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._job, self._random = _job(folder, "0.01"), random.Random(seed)
        self._machine = Machine(folder)
        self.repeated: list[int] = []
        """Steps that each kill cost."""
        self.after_notice: list[int] = []
        self.weights = b""

    def run(self) -> Kills:
        """Kill it, again and again, and let it end."""
        delivery, reached, told = 1, 0, False
        while not self._job.outcomes():
            how = self._random.choice(("worker", "machine", "notice"))
            lines = self._attempt(how, delivery)
            started = _numbers(lines, "start")
            if started and delivery > 1:
                (self.after_notice if told else self.repeated).append(max(0, reached - started[0]))
            reached, told = max([reached, *_numbers(lines, "saved")]), how == "notice" and bool(started)
            delivery += 1
        self.weights = self._job.outputs(self._job.outcomes()[0])["weights"]
        return self

    @property
    def kills(self) -> int:
        """How often it was killed and came back."""
        return len(self.repeated) + len(self.after_notice)

    def _attempt(self, how: str, delivery: int) -> list[str]:
        """Run a worker until it is killed; returns what its program has printed."""
        Path(self._machine.environment["TIDEMILL_NOTICE"]).unlink(missing_ok=True)
        worker = self._job.start(0, delivery, **self._machine.environment)
        assert worker.stdout is not None
        seen: list[str] = []
        # A kill comes at a random moment after the program has begun.
        moment: float | None = None
        os.set_blocking(worker.stdout.fileno(), False)
        rest = b""
        while worker.poll() is None and (moment is None or time.monotonic() < moment):
            rest += worker.stdout.read() or b""
            *lines, rest = rest.split(b"\n")
            seen += [json.loads(line)["message"] for line in lines]
            if moment is None and _numbers(seen, "saved"):
                moment = time.monotonic() + self._random.uniform(0.0, 1.5)
            time.sleep(0.01)
        if how == "notice":
            self._machine.give_notice(60)
        else:
            worker.kill()
        if how == "machine":
            self._end_programs()
        os.set_blocking(worker.stdout.fileno(), True)
        rest += worker.communicate(timeout=90)[0]
        self._end_programs()
        return seen + [json.loads(line)["message"] for line in rest.splitlines() if line.endswith(b"}")]

    def _end_programs(self) -> None:
        """End what a killed worker has left, as the end of its machine does."""
        mark = os.fsencode(str(self._job.team.scratch))
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (process / "environ").read_bytes() and int(process.name) not in (os.getpid(),):
                    os.kill(int(process.name), signal.SIGKILL)


def _numbers(lines: list[str], word: str) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith(f"{word} ")]


# ---- transfers -------------------------------------------------------------------------------------------------------


def transferred(folder: Path, env: Mapping[str, str]) -> None:
    """Save and restore a large state, next to a plain put and get of the same files."""
    source = folder / "large"
    source.mkdir()
    for n in range(FILES):
        (source / f"{n:02d}").write_bytes(os.urandom(STATE_MIB * 2**20 // FILES))
    print(f"\n{STATE_MIB} MiB in {FILES} files")
    # Each of two is measured in turn, so that other work on the machine slows both.
    put, save, get, back = (
        min(found, key=lambda one: one["seconds"])
        for found in zip(*([timed(env, what, folder) for what in PARTS] for _ in range(RUNS)), strict=True)
    )
    for name, seconds in (("obstore put, 2 at a time", put["seconds"]), ("snapshot", save["seconds"])):
        print(f"{name:<34} {seconds:8.2f} s")
    print(f"{'obstore get, 4 at a time':<34} {get['seconds']:8.2f} s\n{'restore':<34} {back['seconds']:8.2f} s")
    figure("state-save-over-put", put["seconds"] / save["seconds"], "x", 0.8, higher_is_better=True)
    figure("state-unchanged-seconds", save["again_seconds"], "s", 0.5)
    figure("state-unchanged-bytes", save["again_bytes"], "bytes", 0)
    figure("state-save-memory", save["memory_mib"], "MiB", 150)
    figure("state-restore-over-get", get["seconds"] / back["seconds"], "x", 0.8, higher_is_better=True)
    figure("state-restore-memory", back["memory_mib"], "MiB", 150)
    others(folder, source, env, save["seconds"])
    many = timed(env, "many", folder)
    figure("state-objects-per-file", many["objects"] / many["files"], "x", 2)


def others(folder: Path, source: Path, env: Mapping[str, str], ours: float) -> None:
    """Compare with tools that people use for a folder of checkpoints."""
    sync = [str(s5cmd()), "sync", f"{source}/", f"s3://{BUCKET}/s5cmd/"]
    seconds = wall(sync, s5cmd_environment(dict(env)))
    print(f"{'s5cmd sync':<34} {seconds:8.2f} s")
    if aws := installed("awscli"):
        seconds = wall([str(aws / "aws"), "s3", "sync", "--quiet", str(source), f"s3://{BUCKET}/awscli"], env)
        print(f"{'aws s3 sync':<34} {seconds:8.2f} s")
        figure("state-save-over-aws-sync", ours / seconds, "x", 1)


def wall(command: list[str], env: Mapping[str, str]) -> float:
    """Seconds that a command takes."""
    began = time.monotonic()
    subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=TIMEOUT_SECONDS, check=True
    )
    return time.monotonic() - began


def timed(env: Mapping[str, str], what: str, folder: Path) -> dict[str, float]:
    """Run a part in a process of its own, so that its memory is its own; returns what it has measured."""
    command = [sys.executable, "-m", "benchmarks.state", what, str(folder)]
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=TIMEOUT_SECONDS, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def _watch(measured: dict[str, float]) -> Iterator[None]:
    began = time.monotonic()
    yield
    measured["seconds"] = time.monotonic() - began


def part(what: str, folder: Path) -> dict[str, float]:
    """Measure one part."""
    store, measured = Store.open(f"s3://{BUCKET}"), dict[str, float]()
    source = folder / "large"
    parts: dict[str, Callable[[], None]] = {
        "put": lambda: _put(store, source, measured),
        "save": lambda: _save(store, source, measured),
        "get": lambda: _get(store, folder / "got", measured),
        "restore": lambda: _restore(store, folder / "back", measured),
        "many": lambda: _many(store, folder / "many", measured),
    }
    parts[what]()
    measured["memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return measured


def _put(store: Store, source: Path, measured: dict[str, float]) -> None:
    paths = sorted(source.iterdir())
    with ThreadPoolExecutor(2) as pool, _watch(measured):
        list(pool.map(lambda path: obstore.put(store._backend, f"plain/{path.name}", path), paths))


def _get(store: Store, target: Path, measured: dict[str, float]) -> None:
    target.mkdir()

    def one(n: int) -> None:
        with (target / f"{n:02d}").open("wb") as file:
            for block in obstore.get(store._backend, f"plain/{n:02d}").stream(min_chunk_size=8 * 2**20):
                file.write(block)

    with ThreadPoolExecutor(4) as pool, _watch(measured):
        list(pool.map(one, range(FILES)))
    shutil.rmtree(target)


def _attempt(store: Store, folder: Path, job: str) -> Saver:
    snapshots = Snapshots(store, job, 0)
    snapshots.claim("a1", 0, "", snapshots.newest())
    return Saver(snapshots, folder)


def _save(store: Store, source: Path, measured: dict[str, float]) -> None:
    # The attempt knows nothing of the one before, so it sends everything.
    saver = _attempt(store, source, LARGE)
    with _watch(measured):
        saver.save(scan(source), lambda: False)
    again = dict[str, float]()
    with _watch(again):
        there = scan(source)
        sent = saver.save(there, lambda: False).bytes if saver.differs(there) else 0
    measured |= {"again_seconds": again["seconds"], "again_bytes": sent}
    saver.close()


def _restore(store: Store, target: Path, measured: dict[str, float]) -> None:
    recent = Snapshots(store, LARGE, 0).recent()
    with _watch(measured):
        found = restore(store, choose(recent), target, kept=lambda *_: set(), stop=lambda: False, room=None, note=print)
    assert found is not None
    shutil.rmtree(target)


def _many(store: Store, folder: Path, measured: dict[str, float]) -> None:
    """A hundred snapshots, half of the files changed before each."""
    folder.mkdir()
    saver, files = _attempt(store, folder, "many-00000000"), 10
    for n in range(CHANGES):
        for k in range(files):
            if not n or k < files // 2:
                (folder / str(k)).write_bytes(b"%d %d" % (n, k))
        saver.save(scan(folder), lambda: False)
    saver.close()
    names = store.list(layout.state("many-00000000", 0))
    measured |= {"objects": sum("/snapshots/" not in name for name in names), "files": files}


if __name__ == "__main__":
    print(json.dumps(part(sys.argv[1], Path(sys.argv[2]))))
