"""Jobs for reports: records as workers would have written them, in memory, with machines, failures and reclaims."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.unit.client_fakes import FakeBackend, pipeline, uris
from tidemill import layout
from tidemill.client import Job
from tidemill.layout import ChunkKey
from tidemill.ledger import Outcome
from tidemill.ledger.digest import RanOn, RunFacts, digest_of
from tidemill.ledger.records import Header, Record

RECLAIMED = {"machine": {"type": None, "market": None}, "held": 0.0, "lost": 0.0}
"""What a worker says when it is reclaimed on a machine of an unknown type."""
MACHINES = [
    RanOn(f"i-{n:04x}", kind, f"us-west-2{zone}", market)
    for n, (kind, zone, market) in enumerate(
        [("c7i.4xlarge", "abc"[n % 3], "spot") for n in range(8)]
        + [("c7i.2xlarge", "a", "spot") for n in range(3)]
        + [("c7i.4xlarge", "b", "on_demand") for n in range(2)]
    )
]


@dataclass
class Made:
    """A job and what is true of it."""

    job: Job
    backend: FakeBackend
    walls: list[float] = field(default_factory=list)
    memories: list[float] = field(default_factory=list)


def plain(index: int, rng: random.Random) -> Outcome:
    """An item that takes about ten seconds; one of fifty fails, in two ways."""
    wall = rng.lognormvariate(2.3, 0.4)
    made = Outcome(
        index=index,
        uri=f"s3://raw/{index}.jpg",
        status="succeeded",
        exit_code=0,
        attempts=1,
        wall_seconds=round(wall, 3),
        cpu_seconds=round(wall * rng.uniform(0.7, 0.98), 3),
        peak_memory_mib=round(rng.gauss(380, 20), 1),
        output=f"s3://store/out/{index}/",
    )
    if index % 50 == 7:
        made.status, made.attempts, made.output = "failed", 3, None
        made.reason, made.exit_code = ("exit", 1) if index % 3 else ("timeout", None)
        made.error = f"ValueError: band {index % 9} of tile {index}.jpg is empty" if index % 3 else None
    return made


def made_job(
    items: int = 2400,
    chunk: int = 24,
    *,
    outcome: Callable[[int, random.Random], Outcome] = plain,
    done: float = 1.0,
    reclaims: int = 0,
    name: str = "tiles",
    uri: str = "memory://",
    **submit: object,
) -> Made:
    """A job of which a part is done: chunks on a growing and shrinking fleet, over half an hour."""
    target, backend = pipeline(uri)
    given: dict[str, object] = {"queue": "cpu", "name": name, "chunk_size": chunk} | submit
    sent = target.submit(["python3", "tiles.py", "{input}"], uris(items), **given)  # type: ignore[arg-type]
    began = datetime.now(UTC) - timedelta(minutes=30)
    spec = sent.spec.model_copy(update={"created_at": began})
    target.store.put(layout.spec(sent.id), spec.model_dump_json().encode())
    job = target.job(sent.id)
    made, rng = Made(job, backend), random.Random(7)
    chunks = range(int(job.spec.chunks_total * done))
    for number in chunks:
        ran = [outcome(number * chunk + n, rng) for n in range(min(chunk, items - number * chunk))]
        made.walls += [each.wall_seconds for each in ran]
        made.memories += [each.peak_memory_mib for each in ran]
        where = rng.choice(MACHINES)
        start = began + timedelta(seconds=120 + 1500 * number / max(1, len(chunks)) + rng.uniform(0, 60))
        _commit(job, number, ran, start, where)
    for fake in backend.arrays:
        fake.children = ["succeeded" if n in chunks else "running" for n in range(fake.array.size)]
    for n in range(reclaims):
        target.store.put(layout.drained(ChunkKey(job.id, 0, n), f"a{n}"), json.dumps(RECLAIMED).encode())
    return made


def _commit(job: Job, number: int, ran: list[Outcome], start: datetime, machine: RanOn) -> None:
    """What `ChunkLedger.commit` writes, at a time of its own."""
    held = sum(each.wall_seconds * each.attempts for each in ran) * 1.08
    end = start + timedelta(seconds=held / 8)
    failed = sum(each.status == "failed" for each in ran)
    measured = (held, 0.03 * held, 0.01 * held, sum(each.wall_seconds for each in ran), len(ran) - failed)
    facts = RunFacts(start.isoformat(timespec="seconds"), machine, 8, *measured)
    stamp = end.isoformat(timespec="milliseconds")
    header = Header(number, "a", 0, "host tidemill/0.3.0", len(ran), failed, stamp, {}, digest_of(ran, facts))
    record = Record(header, ran)
    store = job._watched.site.store
    if failed:
        store.put(layout.failed(job.id, 0, number, failed), b"")
    store.put(layout.done(job.id, 0, number), record.encode())
