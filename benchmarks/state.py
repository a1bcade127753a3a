"""State: what kills cost an item, and how well the time to save a state is known.

Workers and programs are real processes; the machines that are taken away are not. `BENCH_KILLS` sets the number of
kills (300), half of them of programs that keep their state as frameworks do (tests/worker/programs/frameworks.py).
Some come before anything of an attempt was saved. Some workers are stopped and come back when the next attempt runs. Up
to eleven days pass between two attempts, in a store in which state expires after 30. Meanwhile a job that begins with
the state of the item reads it slowly.
"""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import obstore

from benchmarks.figures import figure
from tests.worker.containers import Machine, Process, Team, TeamJob
from tidemill.client.watch.saved_state import summed_up
from tidemill.descriptor import WorkerExit
from tidemill.job import StateSettings
from tidemill.services import of_cloud
from tidemill.state import Saver, Snapshot, Snapshots, scan
from tidemill.store import Store
from tidemill.worker.items.item_state import ItemState
from tidemill.worker.machine.stop import Stop
from tidemill.worker.programs.faults import ItemError

KILLS = int(os.environ.get("BENCH_KILLS", "300"))
SIDE_BY_SIDE = 2
STEPS = 400
EVERY = 20
"""Steps from one checkpoint of the program to the next."""
PROGRAMS = Path(__file__).parents[1] / "tests/worker/programs"
WAYS = ("pair", "logged", "folders", "renamed", "database", "mapped")
WANTED = b"20100"
"""What those programs put out: the sum of the numbers to 200."""
EXPIRE_DAYS, MOST_DAYS = 30, 11
DAY = 86_400
GIGABIT = 125e6
"""Bytes per second."""
FILES, CHANGED, FILE_BYTES = 48, 24, 8 * 2**20


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        said(Path(name, "said"))
        killed(Path(name, "kills"))
        mixed(Path(name, "mixed"))


def killed(folder: Path) -> None:
    """Kill an item again and again: its worker, its worker and its program at once, and with a notice."""
    undisturbed = _job(folder / "calm", "0")
    assert undisturbed.run().code == WorkerExit.DONE
    wanted = undisturbed.outputs(undisturbed.outcomes()[0])["weights"]
    runs, count = _until_killed(lambda n: Kills(_job(folder / str(n), "0.01"), n))
    print(f"\n{count} kills of {len(runs)} items that train for {STEPS} steps and save every {EVERY}")
    figure("state-kills", count, "kills", KILLS // 2, higher_is_better=True)
    figure("state-other-weights", sum(run.weights != wanted for run in runs), "items", 0)
    figure("state-torn-restores", sum(run.torn for run in runs), "restores", 0)
    figure("state-repeated-steps", max(step for run in runs for step in run.repeated), "steps", EVERY)
    figure("state-repeated-after-notice", max(step for run in runs for step in run.after_notice), "steps", 0)


def _job(folder: Path, pause: str) -> TeamJob:
    folder.mkdir(parents=True)
    return _sent(folder, "sgd.py", pause, "commit", "save-at-term", f"steps={STEPS}")


def _sent(folder: Path, program: str, *arguments: str) -> TeamJob:
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(PROGRAMS / program), "{state}", "{output}", *arguments]
    return Team(folder).job(["x"], command, state={"snapshot_seconds": 1}, spec_version=4)


def mixed(folder: Path) -> None:
    """Kill programs that keep their state as frameworks do, and see what each attempt finds."""
    runs, count = _until_killed(lambda n: Kills(_sent(folder / str(n), "frameworks.py", WAYS[n % len(WAYS)]), n))
    print(f"{count} kills of {len(runs)} items that keep their state in {len(WAYS)} ways: {', '.join(WAYS)}")
    print(f"  {sum(run.came_back for run in runs)} attempts came back beside the next one")
    print(f"  {sum(run.early for run in runs)} were killed before anything of theirs was saved")
    print(f"  {sum(run.read for run in runs)} slow readers, {sum(run.gave_up for run in runs)} of which gave up")
    print(f"  {sum(run.days for run in runs):.0f} days passed, {sum(run.expired for run in runs)} objects expired")
    figure("state-framework-kills", count, "kills", KILLS // 2, higher_is_better=True)
    figure("state-mixed-restores", sum(run.mixed for run in runs), "restores", 0)
    figure("state-damaged-reads", sum(run.damaged for run in runs), "reads", 0)
    figure("state-lost-items", sum(run.weights != WANTED for run in runs), "items", 0)


def _until_killed(make: Callable[[int], Kills]) -> tuple[list[Kills], int]:
    """Run items until half of the kills are done."""
    runs: list[Kills] = []
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        while (count := sum(run.kills for run in runs)) < KILLS // 2:
            wanted = range(len(runs), len(runs) + 2 * SIDE_BY_SIDE + 1)
            runs += pool.map(lambda n: make(n).run(), wanted)
    return runs, count


class Kills:
    """One item that is killed again and again until it has its outcome all the same."""

    def __init__(self, job: TeamJob, seed: int) -> None:
        self._job, self._random = job, random.Random(seed)
        self._machine = Machine(job.team.root)
        self._stopped: Process | None = None
        self._was_early = False
        self.repeated: list[int] = []
        """Steps that each kill cost."""
        self.after_notice: list[int] = []
        self.torn = 0
        """Starts with a checkpoint that could not be read."""
        self.mixed = 0
        """Starts with the files of two."""
        self.came_back = self.early = self.read = self.gave_up = self.damaged = self.expired = 0
        self.days = 0.0
        self.weights = b""

    def run(self) -> Kills:
        """Kill it, again and again, and let it end."""
        delivery, reached, told = 1, 0, False
        while not self._job.outcomes():
            how = self._random.choice(("worker", "machine", "notice", "stopped"))
            with self._read_slowly(delivery):
                lines = self._attempt(how, delivery)
            self._pass_days(self._random.uniform(0, MOST_DAYS))
            started = _numbers(lines, "start")
            self.torn += any("JSONDecodeError" in line or "malformed" in line for line in lines)
            self.mixed += any(line.startswith("mixed ") for line in lines)
            if started and delivery > 1:
                (self.after_notice if told else self.repeated).append(max(0, reached - started[0]))
            reached, told = max([reached, *_numbers(lines, "saved")]), how == "notice" and not self._was_early
            told = told and bool(started)
            delivery += 1
        outcome = self._job.outcomes()[0]
        if outcome.output is None:
            print(f"{self._job.team.root.name}: {outcome.reason}: {outcome.error}", file=sys.stderr)
        else:
            self.weights = self._job.outputs(outcome)["weights"]
        return self

    @property
    def kills(self) -> int:
        """How often it was killed and came back."""
        return len(self.repeated) + len(self.after_notice)

    def _attempt(self, how: str, delivery: int) -> list[str]:
        """Run a worker until it is killed; returns what its program has printed."""
        Path(self._machine.environment["TIDEMILL_NOTICE"]).unlink(missing_ok=True)
        worker = self._job.start(0, delivery, **self._machine.environment)
        assert isinstance(worker.stdout, io.BufferedReader)
        seen: list[str] = []
        # A kill comes at a random moment after something of this attempt was saved, or of one in four before.
        moment: float | None = None
        # An attempt that comes back leaves only once the next one has claimed the item.
        alone = self._stopped is None and how != "stopped"
        early = alone and not self._was_early and self._random.random() < 0.4
        if early:
            moment = time.monotonic() + self._random.uniform(0.0, 2.0)
        self._was_early = early
        os.set_blocking(worker.stdout.fileno(), False)
        rest = b""
        while worker.poll() is None and (moment is None or time.monotonic() < moment):
            rest += worker.stdout.read() or b""
            *lines, rest = rest.split(b"\n")
            seen += [json.loads(line)["message"] for line in lines]
            if moment is None and "state saved" in seen:
                moment = time.monotonic() + self._random.uniform(0.0, 1.5)
            time.sleep(0.01)
        self.early += worker.poll() is None and "state saved" not in seen
        if self._stopped is not None:
            # It sees that another attempt has begun, and leaves.
            self._stopped.send_signal(signal.SIGCONT)
            self.came_back += self._stopped.wait(timeout=90) == WorkerExit.RECLAIMED
            self._stopped = None
        if how == "stopped" and worker.poll() is None:
            self._stopped = worker
            worker.send_signal(signal.SIGSTOP)
            return seen
        if how == "notice" and not early:
            # A worker that has begun nothing yet would stay until its machine goes.
            self._machine.give_notice(60)
        else:
            worker.kill()
        if how == "machine":
            self._end_programs()
        os.set_blocking(worker.stdout.fileno(), True)
        rest += worker.communicate(timeout=90)[0]
        self._end_programs()
        return seen + [json.loads(line)["message"] for line in rest.splitlines() if line.endswith(b"}")]

    def _pass_days(self, days: float) -> None:
        """Make all state older, and let what is too old expire. An attempt that stands still waits as long."""
        self.days += days
        for path in (self._job.team.root / "store" / "state").rglob("*"):
            with suppress(FileNotFoundError):
                if path.is_file():
                    at = path.stat().st_mtime - days * DAY
                    os.utime(path, (at, at))
                    if time.time() - at > EXPIRE_DAYS * DAY:
                        path.unlink()
                        self.expired += 1

    @contextmanager
    def _read_slowly(self, delivery: int) -> Iterator[None]:
        """Let a job that begins with the state of the item read it, if its programs can check what they find."""
        command, seed = self._job.spec.command or [], self._random.random()
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(self._reader, delivery, command, random.Random(seed))
            yield
            reading.result()

    def _reader(self, delivery: int, command: list[str], chance: random.Random) -> None:
        if not command[1].endswith("frameworks.py"):
            return
        time.sleep(chance.uniform(0.0, 2.0))
        store = Store.open(self._job.team.store.uri)
        stream = store.stream

        def slow(*arguments: Any, **options: Any) -> Iterator[bytes]:
            time.sleep(chance.uniform(0.0, 0.5))
            return stream(*arguments, **options)

        folder = self._job.team.root / f"reader-{delivery}"
        with patch.object(store, "stream", slow):
            settings = StateSettings(from_job=self._job.spec.job, from_item=0)
            place = (f"reader-{delivery:08}", 0, "r", 0, "")
            state = ItemState(store, settings, place, folder, room=lambda: 2**30, stop=Stop(), labels={})
            try:
                state.prepare()
            except ItemError as error:
                # There is nothing to begin with yet, or it changes too often.
                self.gave_up += not error.final
                self.damaged += "None of the snapshots" in str(error)
                return
            finally:
                state.close()
        self.read += 1
        checked = [*command[:2], str(folder), str(folder), *command[4:], "check"]
        found = subprocess.run(checked, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=90)
        self.mixed += found.returncode != 0

    def _end_programs(self) -> None:
        """End what a killed worker has left, as the end of its machine does."""
        mark = os.fsencode(str(self._job.team.scratch))
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (process / "environ").read_bytes() and int(process.name) not in (os.getpid(),):
                    os.kill(int(process.name), signal.SIGKILL)


def _numbers(lines: list[str], word: str) -> list[int]:
    return [int(line.split()[1]) for line in lines if line.startswith(f"{word} ")]


def said(folder: Path) -> None:
    """How long a whole state takes to save, said from a snapshot that sent half of it, on a network of 1 Gbps."""
    state, network = folder / "state", Network(GIGABIT)
    state.mkdir(parents=True)
    snapshots = Snapshots(Store.open(f"file://{folder}/store"), "said-00000000", 0)
    snapshots.claim("a1", 0, "", None)
    saver = Saver(snapshots, state)

    def saved(changed: int) -> Snapshot:
        for n in range(changed):
            (state / str(n)).write_bytes(os.urandom(FILE_BYTES))
        return saver.save(scan(state), lambda: False)

    with patch("obstore.put", network.put):
        saved(FILES)
        found = summed_up([[saved(CHANGED)]], of_cloud("aws").notice_seconds, datetime.now(UTC))
        took = saved(FILES).seconds
    saver.close()
    assert found.save_seconds is not None
    size = FILES * FILE_BYTES / 2**20
    print(f"{size:.0f} MiB at 1 Gbps: said {found.save_seconds:.1f} s, took {took:.1f} s")
    figure("state-save-time-said", abs(found.save_seconds - took) / took, "share", 0.1)


class Network:
    """Lets files pass at a rate, all of them together. They end nowhere: this machine's disk is not measured."""

    def __init__(self, rate: float) -> None:
        self._rate, self._free, self._lock, self._put = rate, 0.0, threading.Lock(), obstore.put

    def put(self, store: Any, name: str, data: bytes | Iterator[bytes], **options: Any) -> Any:
        """`obstore.put`; only what is created, the list of a snapshot, is kept."""
        if isinstance(data, bytes):
            return self._put(store, name, data, **options)
        began, size = time.monotonic(), sum(map(len, data))
        with self._lock:
            self._free = max(self._free, began) + size / self._rate
            until = self._free
        time.sleep(max(0.0, until - time.monotonic()))
