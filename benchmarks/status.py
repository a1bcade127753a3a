"""Status and resume of half a million items in 10,000 chunks, compared with a bare listing of the same names."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import obstore

from benchmarks.figures import figure
from benchmarks.submit import ITEMS, uris
from benchmarks.team import Team, team
from tidemill.client import Job, Pipeline
from tidemill.client.rounds.deliveries import known_arrays
from tidemill.layout import of_round
from tidemill.ledger import Ledger, Outcome
from tidemill.ledger.records import Header, Record
from tidemill.store import Store

CHUNK = 50
CHUNKS = ITEMS // CHUNK
MISSING = range(0, CHUNKS, 100)
AWAY_SECONDS = 0.08
RUNS = 3


def main() -> None:
    """Print a table and the figures."""
    with team() as there, environment(there.env):
        items = there.folder / "items.txt"
        items.write_text("".join(uris(ITEMS)))
        sent = there.tidemill(
            "submit", "--name", "bench", "--chunk-size", str(CHUNK), "--items", str(items), "--", "x", "{uri}"
        )
        pipeline = Pipeline.load(os.environ["TIDEMILL_PIPELINE"])
        job = pipeline.job(sent.out.strip())
        fill(pipeline.store, job, [chunk for chunk in range(CHUNKS) if chunk not in MISSING])
        job._watched.site.backend("cpu").cancel(known_arrays(job._watched.site, job.spec), "their machines are gone")
        resumed = there.tidemill("resume", job.id)
        print(f"{'resume, 1 % missing, whole process':<44} {resumed.seconds:>8.2f} s  {resumed.out.strip()}")
        fill(pipeline.store, job, list(MISSING), number=1)
        figure("resume-1-percent-seconds", resumed.seconds, "s", 5)
        near = _beside(there, job.id, 0)
        figure("status-10k-over-bare-listing", near[0] / near[1], "x", 1.3)
        far = _beside(there, job.id, AWAY_SECONDS)
        figure("status-10k-80ms-seconds", far[0], "s", 1.3 * far[1] + 1)
        figure("status-10k-requests", far[2], "requests", 40)
        whole = there.tidemill("status", job.id)
        print(f"{'status, whole process':<44} {whole.seconds:>8.2f} s")
        _local(there.folder / "local", pipeline, job)


def fill(store: Store, job: Job, chunks: Sequence[int], number: int = 0) -> None:
    """Write the records that workers would."""
    ledger = Ledger(store, job.id)

    def write(chunk: int) -> None:
        ran = [_outcome(chunk * CHUNK + n) for n in range(CHUNK)]
        record = Record(Header(chunk, "a", number, "bench", CHUNK, 0, "2026-01-01T00:00:00+00:00", {}), ran)
        store.put(f"{of_round(job.id, number, 'done')}/{chunk % 16:x}/{chunk}.jsonl", record.encode())

    start = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, chunks))
    seen = ledger.counts()
    print(f"{f'{len(chunks)} records written':<44} {time.monotonic() - start:>8.2f} s  {seen.chunks_done} done")


def _outcome(index: int) -> Outcome:
    return Outcome(
        index=index,
        uri=f"s3://raw-images/{index}.jpg",
        status="succeeded",
        exit_code=0,
        attempts=1,
        wall_seconds=4.8,
        cpu_seconds=4.1,
        peak_memory_mib=700,
    )


def _beside(there: Team, job: str, seconds: float) -> tuple[float, float, int]:
    """Return seconds of a status and of a bare listing, the best of several in turn, and the status's requests."""
    with there.far_away(seconds) as relay, environment(relay.env):
        pipeline = Pipeline.load(os.environ["TIDEMILL_PIPELINE"])
        status, listing, requests = [], [], 0
        pipeline.job(job).status()
        for _ in range(RUNS):
            listing.append(_timed(lambda: _bare(pipeline.store, job)))
            before = relay.requests()
            status.append(_timed(lambda: pipeline.job(job).status()))
            requests = relay.requests() - before
    how = f"{seconds * 1000:.0f} ms added"
    print(f"{f'bare listing of {CHUNKS} names, {how}':<44} {min(listing):>8.2f} s")
    print(f"{f'status, {how}, {requests} requests':<44} {min(status):>8.2f} s")
    return min(status), min(listing), requests


def _bare(store: Store, job: str) -> int:
    folders = [of_round(job, number, "done") for number in (0, 1)]
    found = sum(len(page) for folder in folders for page in obstore.list(store._backend, folder, chunk_size=1000))
    if found != CHUNKS:
        raise RuntimeError(f"{found} names instead of {CHUNKS}")
    return found


def _timed(call: Callable[[], Any]) -> float:
    start = time.monotonic()
    call()
    return time.monotonic() - start


def _local(folder: Path, pipeline: Pipeline, job: Job) -> None:
    """Measure the same job in a folder."""
    store = Store.open(f"file://{folder}")
    for name in pipeline.store.list(f"jobs/{job.id}"):
        if "/done/" not in name:
            store.put(name, pipeline.store.get(name))
    fill(store, job, [chunk for chunk in range(CHUNKS) if chunk not in MISSING])
    fill(store, job, list(MISSING), number=1)
    here = Pipeline(pipeline.descriptor.model_copy(update={"store": store.uri}), store, pipeline.site.backend("cpu"))
    seconds = min(_timed(lambda: here.job(job.id).status()) for _ in range(RUNS))
    print(f"{'status, file://':<44} {seconds:>8.2f} s")
    figure("status-10k-file-seconds", seconds, "s", 1)


@contextmanager
def environment(values: Mapping[str, str]) -> Any:
    """Set environment variables of this process for a while."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    main()
