"""Templates: schedulers that fire twice, senders that are killed, files in bursts, and half a million names.

Senders are processes; the store is an S3 on a loopback port, the queue of jobs and that of events are folders. Beside
them runs what a cron line does: list the files, and submit a job with the day in its name. What this cannot tell: how a
cloud's own scheduler and queue behave.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import shutil
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.figures import figure
from tests.chaos.batch import QueueFolder
from tests.loopback_s3 import LoopbackS3
from tests.unit.client_fakes import descriptor, queue
from tidemill.client import Pipeline
from tidemill.clouds.events import ArrivedObject, EventBatch
from tidemill.descriptor import SPEC_VERSION, Arrival, Schedule
from tidemill.manifest import ManifestIndex, read_items
from tidemill.sender import answer
from tidemill.store import Store

BUCKET, FIRST = "store", datetime(2026, 1, 1, 2, tzinfo=UTC)
DOUBLE, KILLED, CRON_EVERY, ARRIVING, LISTED = 200, 50, 9, 100_000, 500_000
MESSAGE_OBJECTS = 500
COMMAND = ["python3", "tile.py", "{uri}", "{output}"]
WAIT_SECONDS = 120.0


class SortedS3(LoopbackS3):
    """A bucket that lists many names fast."""

    def __init__(self) -> None:
        super().__init__(BUCKET)
        self._sorted: list[str] = []

    def keys(self, prefix: str = "", after: str = "") -> list[str]:
        """Names with a prefix, in order."""
        with self.lock:
            if len(self._sorted) != len(self.objects):
                self._sorted = sorted(self.objects)
            first = max(bisect_left(self._sorted, prefix), bisect_right(self._sorted, after))
            return self._sorted[first : bisect_left(self._sorted, f"{prefix}\U0010ffff", first)]


class EventFolder:
    """A queue of events: a message is a file, which is moved away until it is forgotten."""

    def __init__(self, folder: Path) -> None:
        self.waiting, self.underway = folder / "waiting", folder / "underway"
        for each in (self.waiting, self.underway):
            each.mkdir(parents=True, exist_ok=True)

    def send(self, objects: list[ArrivedObject]) -> None:
        """Put objects into messages."""
        for first in range(0, len(objects), MESSAGE_OBJECTS):
            name = f"{time.time_ns()}-{first}"
            (self.waiting / f".{name}").write_text(json.dumps(objects[first : first + MESSAGE_OBJECTS]))
            (self.waiting / f".{name}").rename(self.waiting / name)

    def lose_receiver(self) -> None:
        """Deliver again what was not forgotten."""
        for path in self.underway.iterdir():
            path.rename(self.waiting / path.name)

    def take(self) -> EventBatch:
        """See `ArrivalEvents`."""
        for path in self.waiting.glob("[0-9]*"):
            try:
                path.rename(self.underway / path.name)
            except FileNotFoundError:
                continue
            read = json.loads((self.underway / path.name).read_bytes())
            return EventBatch([ArrivedObject(*each) for each in read], [path.name])
        return EventBatch([], [])

    def forget(self, batch: EventBatch) -> None:
        """See `ArrivalEvents`."""
        for name in batch.receipts:
            (self.underway / name).unlink(missing_ok=True)


def opened(folder: Path) -> Pipeline:
    """The pipeline, with a schedule and arrivals."""
    uri, queues = f"s3://{BUCKET}", ["cpu"]
    nightly = Schedule(template="nightly", queues=queues, cron="0 2 * * *", overlap="allow")
    tiles = Arrival(
        template="tiles", queues=queues, prefix=f"{uri}/in/", settle_minutes=5, most_per_hour=60, queue="events"
    )
    made = descriptor(
        uri, {"cpu": queue()}, max_spec=SPEC_VERSION, schedules={"nightly": nightly}, arrivals={"tiles": tiles}
    )
    return Pipeline(made, Store.open(uri), QueueFolder(folder / "queue"))


def send(folder: Path, env: dict[str, str], event: dict[str, Any], now: float) -> None:
    """One call of the sender, in a process of its own."""
    os.environ.update(env)
    events = EventFolder(folder / "events")
    with (
        patch("tidemill.client.site.open_checks", return_value=[]),
        patch.object(QueueFolder, "now", lambda account: now),
    ):
        pipeline = opened(folder)
        if "save" in event:
            pipeline.templates.save("nightly", COMMAND, f"s3://{BUCKET}/raw/{{time:%Y-%m-%d}}/**", queue="cpu")
            pipeline.templates.save("tiles", COMMAND, (), queue="cpu")
        elif "cron" in event:
            pipeline.submit(COMMAND, f"s3://{BUCKET}/raw/{event['cron']}/**", name=f"cron-{event['cron']}", queue="cpu")
        else:
            answer(pipeline.site, event, lambda *queue: events)
    used = resource.getrusage(resource.RUSAGE_SELF)
    (folder / "used").write_text(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))


class Bench:
    """The store, the folders of the queues, and the processes."""

    def __init__(self, folder: Path, store: LoopbackS3) -> None:
        self.folder, self.store, self.dice = folder, store, random.Random(7)
        self.events, self.now = EventFolder(folder / "events"), FIRST
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(["benchmarks.templates", "boto3", "tidemill.client.sending.submit"])

    def start(self, event: dict[str, Any]) -> Any:
        """Start a call of the sender."""
        given = (self.folder, self.store.environment, event, self.now.timestamp())
        process = self._processes.Process(target=send, args=given)
        process.start()
        return process

    def call(self, event: dict[str, Any]) -> None:
        """Call the sender, and wait for its end."""
        self.wait(self.start(event))

    def wait(self, process: Any, seconds: float = WAIT_SECONDS) -> bool:
        """Wait for the end of a call, or kill it after so long; false where it was killed."""
        process.join(seconds)
        alive = process.is_alive()
        if alive:
            process.kill()
            process.join()
        return not alive

    def arrive(self, *names: str) -> None:
        """Put objects into the store."""
        for name in names:
            self.store.write(name, b"x", False)

    def jobs(self, prefix: str) -> list[dict[str, Any]]:
        """Specs of the jobs with a name that begins so."""
        keys = [key for key in self.store.keys(f"jobs/{prefix}") if key.endswith("/job.json")]
        return [json.loads(self.store.objects[key]) for key in keys]

    def arrays(self, prefix: str) -> Counter[str]:
        """How often each array of such jobs is in the queue, without those that were ended."""
        paths = (self.folder / "queue").glob(f"*~{prefix}*.array")
        return Counter(path.stem.partition("~")[2] for path in paths if not path.with_suffix(".cancel").exists())


def main() -> None:
    """Print a table and the figures."""
    with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as name, SortedS3().running() as store:
        bench = Bench(Path(name), store)
        bench.call({"save": True})
        _schedules(bench)
        _arrivals(bench)
        _listing(bench)


def _schedules(bench: Bench) -> None:
    days = [FIRST + timedelta(days=number) for number in range(DOUBLE + KILLED)]
    killed = 0
    for number, day in enumerate(days):
        folder, bench.now = f"raw/{day:%Y-%m-%d}", day
        bench.arrive(f"{folder}/a.jpg", f"{folder}/b.jpg")
        event = {"schedule": "nightly", "time": day.isoformat()}
        for kind in (event, {"cron": f"{day:%Y-%m-%d}"})[: 1 if number % CRON_EVERY else 2]:
            first = bench.start(kind)
            if number < DOUBLE:
                # Every other time the second call comes after the first, and a file between the two.
                if number % 2:
                    bench.wait(first)
                    bench.arrive(f"{folder}/{len(kind)}.jpg")
                bench.wait(bench.start(kind))
                bench.wait(first)
            elif not bench.wait(first, bench.dice.uniform(0.02, 0.4)) and kind is event:
                # The next day finds what was begun; a cron line runs its command once.
                killed += 1
    bench.now += timedelta(days=1)
    bench.arrive(f"raw/{bench.now:%Y-%m-%d}/a.jpg")
    bench.call({"schedule": "nightly", "time": bench.now.isoformat()})
    noted = [key for key in bench.store.keys("sends/nightly/") if key.endswith("~missed.json")]
    for key in noted:
        bench.call({"schedule": "nightly", "time": json.loads(bench.store.objects[key])["time"]})
    twice, missed = _told(bench, "nightly-", len(days) + 1)
    cron_days = len(days[::CRON_EVERY])
    cron_twice, cron_missed = _told(bench, "cron-", cron_days)
    print(f"{len(days)} days, {DOUBLE} fired twice, {killed} senders killed, {len(noted)} noted as missed")
    print(f"templates: {twice} jobs twice, {missed} missed")
    print(f"a cron line on {cron_days} of the days: {cron_twice} jobs twice, {cron_missed} missed")
    figure("templates-jobs-twice", twice, "jobs", 0)
    figure("templates-jobs-missed", missed, "jobs", 0)


def _told(bench: Bench, prefix: str, days: int) -> tuple[int, int]:
    """Jobs or arrays that are there twice, and days without a job in the queue."""
    by_day = Counter(job["name"] if job["sent_by"] is None else job["sent_by"]["time"] for job in bench.jobs(prefix))
    arrays = bench.arrays(prefix)
    sent = {array.rpartition("-r")[0] for array in arrays}
    there = {job["job"] for job in bench.jobs(prefix)} & sent
    twice = sum(count - 1 for count in by_day.values()) + sum(count - 1 for count in arrays.values())
    return twice, days - min(len(there), len(by_day))


def _arrivals(bench: Bench) -> None:
    names = [f"in/{number:06d}.jpg" for number in range(ARRIVING)]
    sent = killed = minute = 0
    while sent < len(names) or any(bench.events.waiting.iterdir()):
        bench.now, minute = bench.now + timedelta(minutes=1), minute + 1
        burst = names[sent : sent + bench.dice.choice([0, 0, 2_000, 9_000])] if minute % 16 < 8 else []
        at, sent = bench.now.timestamp(), sent + len(burst)
        bench.events.send([ArrivedObject(f"s3://{BUCKET}/{name}", "1", at) for name in burst])
        if not bench.wait(bench.start({"arrivals": True}), bench.dice.choice([WAIT_SECONDS, 0.15, 0.4, 1.0])):
            killed += 1
            bench.events.lose_receiver()
    for _ in range(4):
        bench.now += timedelta(minutes=6)
        bench.call({"arrivals": True})
    os.environ.update(bench.store.environment)
    store, jobs = Store.open(f"s3://{BUCKET}"), [job["job"] for job in bench.jobs("tiles-")]
    uris = (item.uri for job in jobs for item in read_items(store, job, ManifestIndex.load(store, job)))
    taken = Counter(uris)
    arrays = sum(count - 1 for count in bench.arrays("tiles-").values())
    print(f"{ARRIVING} objects in {len(jobs)} jobs, {killed} senders killed")
    figure("templates-objects-twice", sum(taken.values()) - len(taken) + arrays, "objects", 0)
    figure("templates-objects-missed", ARRIVING - len(taken), "objects", 0)


def _listing(bench: Bench) -> None:
    shutil.rmtree(bench.folder / "queue")
    bench.now += timedelta(days=1)
    day = bench.now.replace(hour=2, minute=0, second=0)
    bench.arrive(*(f"raw/{day:%Y-%m-%d}/{number % 97:02d}/camera-{number:09d}.jpg" for number in range(LISTED)))
    begun = time.monotonic()
    bench.call({"schedule": "nightly", "time": day.isoformat()})
    seconds = time.monotonic() - begun
    cpu, megabytes = json.loads((bench.folder / "used").read_bytes())
    items = sum(
        job["items_total"] for job in bench.jobs("nightly-") if job["sent_by"]["time"][:10] == f"{day:%Y-%m-%d}"
    )
    print(f"{items} names: {seconds:.1f} s, of them {cpu:.1f} s CPU of the sender, {megabytes:.0f} MB")
    figure("templates-500k-names-seconds", seconds, "s", 60)
    figure("templates-500k-names-memory", megabytes, "MB", 300)
    figure("templates-500k-names-sent", items, "items", LISTED, higher_is_better=True)
