"""`tidemill top` on 20 running jobs of half a million items each: its requests, its share of a core, and its error.

The jobs' names are in an S3 of another process, which counts requests and adds names as workers would, with the times
that they have. Requests to the queue are counted where they are made. What this cannot prove: how fast a real store is.
"""

from __future__ import annotations

import multiprocessing
import os
import pty
import random
import resource
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any
from unittest.mock import patch

from benchmarks.figures import figure
from benchmarks.status import environment
from tests.loopback_s3 import LoopbackS3
from tests.unit.client_fakes import FakeBackend, descriptor, pipeline
from tidemill import layout
from tidemill.cli.commands.top import watch
from tidemill.client.site import Site
from tidemill.client.watch.board import Board
from tidemill.services.backend import ArrayState, Queue, QueueState
from tidemill.store import Store

JOBS, ITEMS, CHUNK = 20, 500_000, 24
CHUNKS = -(-ITEMS // CHUNK)
FIRST_SECONDS, SECONDS = 20.0, 140.0
"""From the start: when each job has been looked at, and the end."""
CHUNKS_A_SECOND = 4.0
"""Of a job: it takes an hour and a half."""
BUCKET = "jobs"


class Moving(LoopbackS3):
    """Jobs that progress. Chunks end in their order, but for those that run at the same time."""

    def __init__(self, objects: Mapping[str, bytes], jobs: Sequence[str]) -> None:
        super().__init__(BUCKET)
        self.objects |= objects
        self.requests = 0
        self._random = random.Random(13)
        self._left = {job: self._in_order() for job in jobs}
        now = time.time()
        for number, job in enumerate(jobs):
            done = CHUNKS * (number + 1) // (JOBS + 2)
            for n in range(done):
                self.end(job, now - (done - n) / CHUNKS_A_SECOND)

    def _in_order(self) -> list[int]:
        return sorted(range(CHUNKS), key=lambda chunk: chunk + self._random.uniform(0, 2000), reverse=True)

    def fault(self, method: str, key: str, conditional: bool) -> str | None:
        """Count a request."""
        self.requests += 1
        return None

    def end(self, job: str, at: float) -> None:
        """Commit the job's next chunk; one item in a hundred chunks has failed."""
        chunk = self._left[job].pop()
        names = [layout.done(job, 0, chunk), *([layout.failed(job, 0, chunk, 1)] if chunk % 100 == 0 else [])]
        for name in names:
            self.objects[name], self.modified[name] = b"", at

    def done(self) -> dict[str, int]:
        """Return the chunks that have ended, by job."""
        return {job: CHUNKS - len(left) for job, left in self._left.items()}

    def move(self) -> None:
        """Commit chunks at their pace."""
        began, ended = time.time(), 0
        while True:
            time.sleep(0.5)
            due = int((time.time() - began) * CHUNKS_A_SECOND)
            with self.lock:
                for job in self._left:
                    for _ in range(due - ended):
                        self.end(job, time.time())
            ended = due


class Counting(FakeBackend):
    """A queue that runs the jobs and counts what it is asked, in requests to AWS Batch."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0

    def describe(self, queue: Queue, job: str, round_: int | None = None) -> list[ArrayState]:
        """ListJobs and DescribeJobs."""
        self.requests += 2
        return [ArrayState(f"{job}-r0-a0", job, CHUNKS, {"running": 200, "waiting": 9000}, ended=False)]

    def queue_states(self, queues: dict[str, Queue]) -> dict[str, QueueState]:
        """DescribeJobQueues."""
        self.requests += 1
        return super().queue_states(queues)

    def queue_facts(self, queue: Queue) -> Any:
        """DescribeJobQueues and DescribeComputeEnvironments."""
        self.requests += 2
        return super().queue_facts(queue)


def main() -> None:
    """Print the figures."""
    objects, jobs = _jobs()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(objects, jobs, theirs), daemon=True)
    server.start()
    try:
        with environment(ours.recv()):
            _measure(ours)
    finally:
        server.terminate()
        server.join(30)


def _measure(server: Connection) -> None:
    found = descriptor(f"s3://{BUCKET}")
    backend = Counting()
    board = Board(Site(found, Store.open(f"s3://{BUCKET}", region="us-west-2"), backend))
    leader, follower = pty.openpty()
    looks: list[tuple[float, float, int]] = []

    def look() -> None:
        server.send("requests")
        looks.append((time.monotonic(), time.process_time(), server.recv() + backend.requests))

    threading.Thread(target=_drain, args=(leader,), daemon=True).start()
    for seconds, then in ((FIRST_SECONDS, look), (SECONDS, look), (SECONDS + 1, lambda: os.write(leader, b"q"))):
        threading.Timer(seconds, then).start()
    with (
        open(follower, "w") as terminal,
        patch.object(sys, "stdin", terminal),
        patch.object(sys, "stdout", terminal),
    ):
        watch(board, "vision-dev")
        server.send("done")
        done, shown = server.recv(), board.snapshot()
    (since, cpu, before), (until, after_cpu, after) = looks
    errors = [abs(job.progress[0] / ITEMS - done[job.job] / CHUNKS) for job in shown.jobs]
    print(f"{len(shown.jobs)} of {JOBS} jobs; {before} requests in the first {FIRST_SECONDS:.0f} s")
    figure("top-unseen-jobs", JOBS - len(shown.jobs), "jobs", 0)
    figure("top-first-requests", before, "requests", 12 * JOBS)
    figure("top-requests-per-second", (after - before) / (until - since), "requests/s", 1)
    figure("top-core-percent", 100 * (after_cpu - cpu) / (until - since), "%", 5)
    figure("top-error-percent", 100 * max(errors), "%", 2)
    figure("top-peak-mib", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB", 300)


def _drain(leader: int) -> None:
    with suppress(OSError):
        while os.read(leader, 1 << 16):
            pass


def _jobs() -> tuple[dict[str, bytes], list[str]]:
    """Return the objects of the jobs: one is submitted, the others are like it."""
    pipe, _ = pipeline()
    items = (f"s3://raw/{n}.jpg" for n in range(ITEMS))
    first = pipe.submit(["x", "{uri}"], items, queue="cpu", name="bench", chunk_size=CHUNK)
    wanted = ("job.json", "rounds/0.json", "manifest/index")
    kept = {name: pipe.store.get(name) for name in pipe.store.list(f"jobs/{first.id}") if name.endswith(wanted)}
    if len(kept) != len(wanted):
        raise RuntimeError(f"{sorted(kept)} instead of {wanted}")
    objects: dict[str, bytes] = {}
    jobs = [f"bench-{n:08x}" for n in range(JOBS)]
    for number, job in enumerate(jobs):
        for name, data in kept.items():
            objects[name.replace(first.id, job)] = data.replace(first.id.encode(), job.encode())
        objects[f"{layout.JOURNAL}/20261122T{number:06}.000000Z~{job}"] = b""
    return objects, jobs


def _serve(objects: dict[str, bytes], jobs: list[str], pipe: Connection) -> None:
    store = Moving(objects, jobs)
    with store.running():
        threading.Thread(target=store.move, daemon=True).start()
        pipe.send(store.environment)
        while wanted := pipe.recv():
            pipe.send(store.requests if wanted == "requests" else store.done())


if __name__ == "__main__":
    main()
