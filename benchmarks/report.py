"""The report of half a million items, from an S3 server on loopback, at three distances; and what digests cost.

The server takes a tenth of what the reader takes (`benchmarks.still`). A distance is added in the client, to each
request: a relay in Python would take more of this machine than the reader. What that leaves out: bandwidth, and how
real stores throttle.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import obstore

from benchmarks.figures import figure, machine
from benchmarks.still import Still, still
from tests.unit.client_fakes import FakeBackend, descriptor
from tests.unit.report_jobs import MACHINES, plain
from tidemill import layout
from tidemill.client import Pipeline
from tidemill.client.plan.spec import build_spec
from tidemill.client.report.page import page_of
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Outcome, Round
from tidemill.ledger.digest import RunFacts, digest_of
from tidemill.ledger.records import Header, Record
from tidemill.ledger.rounds import RoundArray
from tidemill.manifest import write_frames
from tidemill.sketch import Sketch
from tidemill.store import Store

BUCKET = "contract"
ITEMS = 500_000
MANY_ITEMS = 2_000_000
KINDS = 64
"""Different records; the others repeat their outcomes under other numbers."""
LIMITS = {
    (10_000, 0): 5,
    (10_000, 20): 8,
    (10_000, 80): 20,
    (20_838, 0): 6,
    (20_838, 20): 10,
}
"""Seconds by chunks and milliseconds."""


def main() -> None:
    """Print the figures."""
    print(f"on {machine()}")
    digests()
    megabytes: dict[int, float] = {}
    for items, chunks in ((ITEMS, 10_000), (ITEMS, 20_838), (MANY_ITEMS, 50_000)):
        with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as folder:
            job = fill(Store.open(Path(folder).as_uri()), items, chunks)
            with still(Path(folder)) as server:
                for delay in (0, 20, 80) if items == ITEMS else (0,):
                    told = reported(server, job, chunks, delay)
                    megabytes[items] = max(megabytes.get(items, 0), told["megabytes"])
    figure("report-megabytes", megabytes[ITEMS], "MB", 150)
    figure("report-2m-items-over-500k-memory", megabytes[MANY_ITEMS] / megabytes[ITEMS], "x", 1.2)


def reported(server: Still, job: str, chunks: int, delay: int) -> dict[str, float]:
    """Write one report, and print what it took and what its server took."""
    before = server.cpu_seconds
    told = child(server.environment, job, delay)
    name = f"report-{chunks}-chunks-{delay}ms"
    took = (
        f"{told['seconds']:6.2f} s, {told['cpu']:5.2f} s of CPU and {server.cpu_seconds - before:.2f} s of its server"
    )
    print(f"{name:<28} {took}, {told['megabytes']:.0f} MB, page of {told['bytes'] / 1000:.0f} KB")
    if limit := LIMITS.get((chunks, delay)):
        figure(f"{name}-seconds", told["seconds"], "s", limit)
    if (chunks, delay) == (20_838, 0):
        figure("report-file-kilobytes", told["bytes"] / 1000, "KB", 300)
    return told


def digests() -> None:
    """What a digest costs, and how exact its quantiles are."""
    rng = random.Random(3)
    ran = [plain(n, rng) for n in range(24)]
    facts = RunFacts("2026-11-22T09:00:00+00:00", MACHINES[0], 16, 241.2, 3.1, 1.2, 230.0, 24)
    figure("report-digest-bytes", len(json.dumps(digest_of(ran, facts), separators=(",", ":"))), "bytes", 4096)
    start = time.process_time()
    for _ in range(500):
        digest_of(ran, facts)
    figure("report-digest-milliseconds", (time.process_time() - start) * 2, "ms", 1)
    makers: list[Callable[[], float]] = [
        lambda: rng.uniform(1, 100),
        lambda: rng.paretovariate(1.1),
        lambda: rng.lognormvariate(2, 1),
        lambda: rng.choice([rng.gauss(2, 0.1), rng.gauss(4000, 100)]),
    ]
    worst = 0.0
    for make in makers:
        values = sorted(make() for _ in range(100_000))
        sketch = Sketch(values)
        for part in (0.5, 0.9, 0.99):
            exact = values[math.ceil(part * len(values)) - 1]
            worst = max(worst, abs(sketch.quantile(part) - exact) / exact)
    figure("report-quantile-error-percent", 100 * worst, "%", 2)


def fill(store: Store, items: int, chunks: int) -> str:
    """Write a finished job as its client and workers would, straight into the server's folder."""
    size = -(-items // chunks)
    spec = build_spec(
        name="bench",
        queue="cpu",
        command=["x", "{uri}"],
        chunk_size=size,
        items_total=items,
        chunks_total=-(-items // size),
    )
    # The last chunk may be smaller.
    sizes = [min(size, items - at) for at in range(0, items, size)]
    frames = (("\n".join('"s3://raw/x.jpg"' for _ in range(count)).encode(), count) for count in sizes)
    made = write_frames(store, spec.job, frames)
    began = datetime.now(UTC) - timedelta(hours=2)
    spec = spec.model_copy(update={"manifest": made.sha256, "created_at": began})
    store.put(layout.spec(spec.job), spec.model_dump_json().encode())
    Ledger(store, spec.job).add_round(Round(round=0, arrays=[RoundArray(name=f"{spec.job}-r0-a0", count=len(sizes))]))
    records(store, spec, sizes, began)
    return spec.job


def records(store: Store, spec: JobSpec, sizes: list[int], began: datetime) -> None:
    """Every record of a job; one chunk of twenty has a failed item."""
    rng = random.Random(5)
    kinds = [[good(n, rng) for n in range(sizes[0])] for _ in range(KINDS)]
    root = Path(store.uri.removeprefix("file://"))
    for kind in ("done", "failed"):
        for shard in layout.SHARDS:
            (root / layout.of_round(spec.job, 0, kind) / shard).mkdir(parents=True, exist_ok=True)
    for chunk, size in enumerate(sizes):
        ran = kinds[chunk % KINDS][:size]
        failed = int(chunk % 20 == 0)
        if failed:
            ran = [Outcome(index=0, uri="s3://raw/x.jpg", status="failed", reason="exit", exit_code=1, attempts=3,
                           wall_seconds=2.0, error=f"ValueError: band {chunk % 7}"), *ran[1:]]  # fmt: skip
            (root / layout.failed(spec.job, 0, chunk, 1)).write_bytes(b"")
        start = began + timedelta(seconds=6800 * chunk / len(sizes))
        held = sum(each.wall_seconds for each in ran) * 1.05
        where = MACHINES[chunk % len(MACHINES)]
        took = sum(each.wall_seconds for each in ran)
        facts = RunFacts(
            start.isoformat(timespec="seconds"), where, 16, held, 0.02 * held, 0.01 * held, took, size - failed
        )
        stamp = (start + timedelta(seconds=held / 16)).isoformat(timespec="milliseconds")
        backend = {"job_id": "0b0f7c2e-6d5c-4f0e-9a53-1c1de4b2a111:4711", "attempt": 1}
        head = Header(chunk, "4711-0", 0, "ip-10-0-1-2 tidemill/0.1.0", size, failed, stamp, backend)
        data = Record(head._replace(digest=digest_of(ran, facts)), ran).encode()
        (root / layout.done(spec.job, 0, chunk)).write_bytes(data)


def good(index: int, rng: random.Random) -> Outcome:
    """An item that succeeded."""
    made = plain(index, rng)
    made.status, made.reason, made.exit_code, made.error, made.attempts = "succeeded", None, 0, None, 1
    return made


def child(env: Any, job: str, delay: int) -> dict[str, float]:
    """Write a report in a process of its own, and return what that says of itself."""
    command = [sys.executable, "-m", "benchmarks.report", job, str(delay)]
    done = subprocess.run(
        command,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return json.loads(done.stdout)


def write_one(job: str, delay: float) -> None:
    """The child: make and draw a report, each request later by a delay."""
    if delay:
        add_distance(delay)
    uri = f"s3://{BUCKET}"
    store = Store.open(uri, region=os.environ["AWS_REGION"])
    start, cpu = time.monotonic(), time.process_time()
    report = Pipeline(descriptor(uri), store, FakeBackend()).job(job).report()
    page = page_of(report)
    seconds = time.monotonic() - start
    if report.executions != report.items:
        raise RuntimeError(f"{report.executions} of {report.items} items")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    told = {"seconds": seconds, "cpu": time.process_time() - cpu, "megabytes": peak, "bytes": len(page.encode())}
    print(json.dumps(told))


def add_distance(seconds: float) -> None:
    """Let every request take longer."""
    for name in ("get", "get_range", "head"):
        call = getattr(obstore, name)
        setattr(obstore, name, lambda *given, call=call, **named: (time.sleep(seconds), call(*given, **named))[1])
    listed = obstore.list

    def pages(*given: Any, **named: Any) -> Any:
        for page in listed(*given, **named):
            time.sleep(seconds)
            yield page

    obstore.list = pages  # type: ignore[assignment]


if __name__ == "__main__":
    write_one(sys.argv[1], float(sys.argv[2]) / 1000)
