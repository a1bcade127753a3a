"""A job's whole life while everything goes wrong that may, from a seed; and the conditions that hold afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from unittest.mock import patch

from tests.chaos import client
from tests.chaos.batch import ELEVEN, Batch, marked
from tests.chaos.bucket import NAME, Bucket
from tidemill import layout
from tidemill.client.job import Job
from tidemill.client.watch import wait as looks
from tidemill.layout import CREATE_PROBE, ENDS, JOURNAL
from tidemill.ledger import Ledger, Outcome, Record

T = TypeVar("T")
PROGRAM = """#!/bin/sh
# $1: the item's index; $2: its output folder. {version}
# A killer waits until a second one has started: later it would find another parent, that which starts the containers.
set -e
case $1 in
{gated}) until [ -e {gate} ]; do sleep 0.05; done ;;
{killers}) sleep 0.05; kill -9 $PPID; sleep 20 ;;
{vandal}) rmdir "$2"; exit 0 ;;
{looper}) ln -s loop "$2/loop"; exit 0 ;;
{filler}) cat /dev/zero > full 2>/dev/null || sleep 0.3; exit 4 ;;
{slow}) sleep 0.7 ;;
{broken}) echo "item $1 is broken" >&2; exit 3 ;;
esac
echo "{version} $1" > "$2/result" || exit 28
"""
MODULE = """
import os, shutil, signal, time

# Of two killers at once the second would else find another parent, and kill what starts the containers.
PARENT = os.getppid()

def work(index, output):
    # {version}
    if index == {gated}:
        while not os.path.exists({gate!r}):
            time.sleep(0.05)
    if index in {killers}:
        os.kill(PARENT, signal.SIGKILL)
        time.sleep(20)
    if index == {vandal}:
        return shutil.rmtree(output)
    if index == {looper}:
        return os.symlink("loop", output + "/loop")
    if index == {filler}:
        try:
            with open("full", "wb") as file:
                while True:
                    file.write(bytes(1 << 20))
        except OSError:
            time.sleep(0.3)
        raise SystemExit(4)
    if index == {slow}:
        time.sleep(0.7)
    if index in {broken}:
        raise SystemExit(3)
    with open(output + "/result", "w") as file:
        file.write("{version} %d" % index)
"""
FULL = 28
KILLERS = 3
"""Items of one chunk that kill their worker: more than one round's ten attempts can handle."""
KILL_POINTS = ("/manifest/", "/job.json", "/rounds/0.json")
"""The submitter dies after writing each of these, and once more after enqueueing."""


@dataclass(frozen=True)
class Size:
    """How large a run is."""

    items: int
    chunk_size: int
    seed: int = 4
    workers: int = 8
    fault_rate: float = 0.03
    scratch_mib: int = 32
    slots: int = 2
    """Concurrent items in a container."""
    function: bool = False
    """Whether items are function calls instead of programs."""
    seconds: float = 240.0

    @property
    def chunks(self) -> int:
        return -(-self.items // self.chunk_size)


@dataclass
class Report:
    """The size of a run, and the problems found."""

    job: str = ""
    wrong: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    seconds: float = 0.0
    items_wrong: int = 0

    def check(self, good: bool, what: str) -> None:
        if not good:
            self.wrong.append(what)


class World:
    """A store, a queue and a program in a folder.

    Args:
        folder: Folder that holds everything.
        size: How large the run is.
    """

    def __init__(self, folder: Path, size: Size) -> None:
        self.folder, self.size = folder, size
        self.bucket = Bucket(size.seed, size.fault_rate)
        self.code = folder / "code"
        self.gate = folder / "gate"
        self.kill_points: tuple[str, ...] = KILL_POINTS
        self.before_cancel: dict[int, Outcome] = {}
        chunk, third = size.chunk_size, size.chunks // 3
        self.killers = [chunk + chunk // 2 + 2 * n for n in range(KILLERS)]
        self.vandal, self.looper = 2 * chunk + 2, 2 * chunk + 4
        """One removes its output folder, one leaves a link there that points to itself."""
        self.filler = (third + 1) * chunk + 1
        self.slow = (2 * third) * chunk
        self.gated = size.items - 1
        """It runs until the job is cancelled, so that there is something to cancel."""
        self.hostile = {*self.killers, self.filler, self.vandal, self.looper}
        self.broken = set(range(7, size.items, 97)) - self.hostile - {self.slow, self.gated}
        self.batch = Batch(
            folder / "queue",
            self.bucket,
            folder / "scratch",
            size.seed,
            slots=size.workers,
            victim=self.slow // chunk,
            calm=frozenset({self.killers[0] // chunk, self.gated // chunk}),
        )

    def write_code(self, version: str) -> Path:
        """The code of the job; in its second version only one item still fails."""
        first = version == "v1"
        broken = sorted(self.broken) if first else [min(self.broken)]
        values = {
            "version": version,
            "gated": self.gated,
            "gate": str(self.gate),
            "vandal": self.vandal if first else "-1",
            "looper": self.looper if first else "-1",
            "filler": self.filler if first else "-1",
            "slow": self.slow,
        }
        self.code.mkdir(exist_ok=True)
        program = self.code / "program.sh"
        killers = self.killers if first else [-1]
        lists = {"broken": "|".join(map(str, broken)), "killers": "|".join(map(str, killers))}
        program.write_text(PROGRAM.format(**values, **lists))
        program.chmod(0o755)
        (self.code / "module.py").write_text(MODULE.format(**values, broken=broken, killers=killers))
        return self.code

    # ---- the run ------------------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Run everything once."""
        report, started = Report(), time.monotonic()
        self.write_code("v1")
        before = {key: os.environ.get(key) for key in self.bucket.environment}
        os.environ.update(self.bucket.environment)
        try:
            with self.bucket.running(), self.batch.running(self.size.scratch_mib):
                job = self.submit_and_die()
                self.cancel_and_resume(job)
                self.gate.touch()
                self.finish(job)
                first = list(Ledger(job._watched.site.store, job.id).outcomes())
                self.check_first(report, first)
                self.retry(job)
                self.finish(job)
                self.until(lambda: self.batch.idle, "the last containers end")
                self.bucket.rate = 0.0
                self.check(report, job)
        finally:
            for key, value in before.items():
                os.environ.pop(key) if value is None else os.environ.update({key: value})
        report.check(marked(str(self.batch.scratch)) == [], "a process is left")
        report.events, report.failures, report.requests = self.batch.events, self.bucket.failures, self.bucket.requests
        report.seconds = time.monotonic() - started
        return report

    def submit_and_die(self) -> Job:
        """Submit; the submitter dies at every point at which it has written something."""
        order = self.folder / "order.json"
        asked = {
            "folder": str(self.batch.folder),
            "items": self.size.items,
            "chunk_size": self.size.chunk_size,
            "command": None if self.size.function else ["{code}/program.sh", "{index}", "{output}"],
            "function": "module:work" if self.size.function else None,
            "code": str(self.code),
            "slots": self.size.slots,
        }
        order.write_text(json.dumps(asked))
        for point in self.kill_points:
            process = subprocess.Popen([sys.executable, "-m", "tests.chaos.client", str(order)])
            self.bucket.on_write = lambda key, process=process, point=point: process.kill() if point in key else None
            process.wait(timeout=60)
            self.bucket.on_write = lambda key: None
            self.batch.events["submitter killed"] += process.returncode != 0
        ids = {client.submit(self.batch.folder, asked).id for _ in range(2)}
        assert len(ids) == 1, "the same submit is the same job"
        assert len(list(self.batch.folder.glob("*.array"))) == 1, "no chunk is enqueued twice"
        return client.open_pipeline(self.batch.folder).job(ids.pop())

    def done(self, job: Job) -> int:
        return len(self.bucket.keys(f"jobs/{job.id}/r0/done/"))

    def cancel_and_resume(self, job: Job) -> None:
        """Cancel in the middle: finished items stay, and a resume runs the rest."""
        self.until(lambda: self.done(job) >= self.size.chunks * 0.3, "the first third")
        job.cancel()
        self.until(lambda: job.status().state == "cancelled", "the end of what ran")
        before = {o.index: o for o in Ledger(job._watched.site.store, job.id).outcomes()}
        assert 0 < len(before) < self.size.items
        job.resume()
        self.before_cancel = before

    def finish(self, job: Job) -> None:
        """Two people wait for the job's end, through an outage of the store."""
        self.bucket.outage_until = time.monotonic() + 1.5
        with patch.object(looks, "SLOWEST_POLL_SECONDS", 0.5):
            ended = self.both(job, lambda one: one.wait(poll_seconds=0.2))
        # Items that are made to fail are part of it.
        assert [status.state for status in ended] == ["failed" if one.failed else "succeeded" for one in ended], ended

    def both(self, job: Job, do: Callable[[Job], T]) -> list[T]:
        """Run the same action for two people at once."""
        people = [client.open_pipeline(self.batch.folder).job(job.id) for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(do, people))

    def retry(self, job: Job) -> None:
        """Two people rerun the failed items, with fixed code."""
        code = self.write_code("v2")
        sent = self.both(job, lambda one: one.retry(code=code))
        assert any(one.items for one in sent), sent

    def until(self, condition: Callable[[], object], what: str) -> None:
        end = time.monotonic() + self.size.seconds
        while not condition():
            if self.batch.error:
                raise RuntimeError("the queue broke") from self.batch.error
            if time.monotonic() > end:
                raise TimeoutError(f"{what}: not within {self.size.seconds} s; {dict(self.batch.events)}")
            time.sleep(0.05)

    # ---- what must be true --------------------------------------------------------------------------------------

    def check_first(self, report: Report, outcomes: list[Outcome]) -> None:
        """After the first rounds."""
        self.check_each_once(report, outcomes)
        by_index = {outcome.index: outcome for outcome in outcomes}
        for index in self.broken:
            report.check(by_index[index].exit_code == 3, f"broken item {index}: {by_index[index]}")
        for index in self.hostile:
            report.check(by_index[index].status == "failed", f"hostile item {index}: {by_index[index]}")
        poison = sorted(outcome.index for outcome in outcomes if outcome.reason == "poison")
        report.check(poison == self.killers, f"poison: {poison}, and not {self.killers}")
        planned = {*self.broken, *self.hostile}
        others = [o for o in outcomes if o.status == "failed" and o.index not in planned]
        # While the disk is full an item may run out of attempts; then its outcome says so.
        report.events["failed beside a full disk"] += len(others)
        for outcome in others:
            full = outcome.exit_code == FULL or "space" in (outcome.error or "")
            report.check(full, f"item {outcome.index} failed and nothing was wrong with it: {outcome}")
        for index, outcome in self.before_cancel.items():
            report.check(by_index[index] == outcome, f"item {index} had an outcome before the cancel and has another")

    def check_each_once(self, report: Report, outcomes: list[Outcome]) -> None:
        times = Counter(outcome.index for outcome in outcomes)
        wrong = [index for index in range(self.size.items) if times[index] != 1] + [i for i in times if i < 0]
        report.items_wrong += len(wrong)
        report.check(not wrong, f"not exactly one outcome: items {wrong[:10]}")

    def check(self, report: Report, job: Job) -> None:
        """After everything."""
        report.job = job.id
        report.wrong += self.batch.faults
        ledger = Ledger(job._watched.site.store, job.id)
        outcomes = list(ledger.outcomes())
        self.check_each_once(report, outcomes)
        failed = [outcome.index for outcome in outcomes if outcome.status == "failed"]
        report.check(failed == [min(self.broken)], f"failed after the retry with mended code: {failed[:10]}")
        counts = ledger.counts()
        told = (counts.succeeded, counts.failed, counts.remaining)
        report.check(told == (self.size.items - len(failed), len(failed), 0), f"status says {told}")
        least = ELEVEN if self.batch.victim >= 0 else 0
        report.check(counts.reclaims >= least, f"only {counts.reclaims} reclaims were counted")
        self.check_attempts(report, ledger, outcomes)
        prefixes = (f"jobs/{job.id}/", f"out/{job.id}/", f"{JOURNAL}/", f"{ENDS}/")
        outside = [key for key in self.bucket.writes if not key.startswith(prefixes) and key != CREATE_PROBE]
        report.check(not outside, f"written outside of the job's prefixes: {outside[:10]}")
        report.check(not self.bucket.replaced, f"replaced: {self.bucket.replaced[:10]}")
        left = list(self.batch.scratch_as_seen.glob("workers/*"))
        report.check(not left, f"left on the scratch disk: {[path.name for path in left]}")

    def check_attempts(self, report: Report, ledger: Ledger, outcomes: list[Outcome]) -> None:
        """Every outcome comes from the attempt that committed it, or from one whose progress that attempt used; its
        output is there, complete, and of this item."""
        index = ledger.index()
        records: dict[tuple[int, int], Record] = {}
        for outcome in outcomes:
            chunk = index.chunk_of(outcome.index)
            number = max(r.round for r in ledger.rounds() if self._has(ledger, r.round, chunk, outcome.index, records))
            if outcome.output is None:
                continue
            key = outcome.output.removeprefix(f"s3://{NAME}/") + "result"
            said = self.bucket.objects.get(key, b"").decode().split()
            attempt = outcome.output.rstrip("/").rpartition("/")[2].rpartition(".")[0]
            good = said[1:] == [str(outcome.index)]
            report.check(good, f"item {outcome.index}: {key} holds {said}")
            winner = records[number, chunk].header.attempt
            if attempt != winner:
                # From this round, or from an earlier one that this one continued.
                folders = [f"{layout.progress(ledger.job, r, chunk)}/{attempt}." for r in range(number + 1)]
                parts = [name for folder in folders for name in self.bucket.keys(folder)]
                lines = b"".join(self.bucket.objects[name] for name in parts).splitlines()
                taken = {Outcome.parse(line).index: Outcome.parse(line) for line in lines}
                same = outcome.index in taken and taken[outcome.index].output == outcome.output
                report.check(same, f"item {outcome.index} names {attempt}; {winner} won and knew nothing of it")

    def _has(self, ledger: Ledger, number: int, chunk: int, item: int, records: dict[tuple[int, int], Record]) -> bool:
        if (number, chunk) not in records:
            data = self.bucket.objects.get(layout.done(ledger.job, number, chunk))
            if data is None:
                return False
            records[number, chunk] = Record.decode(data)
        return any(outcome.index == item for outcome in records[number, chunk].outcomes)
