"""What a submit leaves in a job store, written and read by tests without a client."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any

from tidemill import layout
from tidemill.client.plan.spec import build_spec
from tidemill.job import Item, JobSpec
from tidemill.ledger import Ledger, Round, RoundArray
from tidemill.manifest import ManifestIndex, ManifestInfo, read_chunk, write_frames
from tidemill.store import Store


def write_manifest(
    store: Store, job: str, items: Iterable[Item | str], chunk_size: int, first_sizes: Sequence[int] = ()
) -> ManifestInfo:
    """Write items as they come; an item's index is its position.

    Args:
        store: The job store.
        job: The job's id.
        items: In order.
        chunk_size: Items a chunk.
        first_sizes: Sizes of the first chunks, where they are smaller.
    """
    return write_frames(store, job, _frames(iter(items), chain(first_sizes, repeat(chunk_size))))


def _frames(source: Iterator[Item | str], sizes: Iterable[int]) -> Iterator[tuple[bytes, int]]:
    for size in sizes:
        if not (batch := list(islice(source, size))):
            return
        yield "\n".join(map(_line, batch)).encode(), len(batch)


def _line(item: Item | str) -> str:
    if isinstance(item, str):
        return json.dumps(item)
    return json.dumps(item.uri if item.meta is None else {"uri": item.uri, "meta": item.meta})


def read_items(store: Store, job: str) -> list[Item]:
    """Every item in order."""
    chunks = ManifestIndex.load(store, job).chunks
    return [item for chunk in range(chunks) for item in read_chunk(store, job, chunk)]


def write_spec(ledger: Ledger, spec: JobSpec) -> str:
    """Write `job.json`; returns its SHA-256, which travels with everything that is enqueued."""
    return _written(ledger, layout.spec(ledger.job), spec.model_dump_json().encode())


def write_round(ledger: Ledger, round_: Round) -> str:
    """Write `rounds/<r>.json`; returns its SHA-256."""
    return _written(ledger, layout.round_(ledger.job, round_.round), round_.model_dump_json().encode())


def _written(ledger: Ledger, name: str, data: bytes) -> str:
    assert ledger.store.create(name, data).ours, f"{name} exists and says something else"
    return hashlib.sha256(data).hexdigest()


@dataclass
class StoredJob:
    """A job as a submit leaves it."""

    spec: JobSpec
    ledger: Ledger
    job_sha256: str
    round_sha256: str


def submitted(store: Store, items: Sequence[str], chunk_size: int = 100, **spec: Any) -> StoredJob:
    """A job whose first round is one array of all its chunks; an item has one attempt unless `spec` says else."""
    chunks = -(-len(items) // chunk_size)
    sizes = {"chunk_size": chunk_size, "items_total": len(items), "chunks_total": chunks}
    what = {} if "function" in spec else {"command": ["p"]}
    written = build_spec(**{"name": "t", "queue": "q", "attempts": 1, **what, **sizes, **spec})
    write_manifest(store, written.job, items, chunk_size)
    ledger = Ledger(store, written.job)
    array = RoundArray(name="a", first=0, count=chunks)
    first = Round(round=0, arrays=[array], code=written.code)
    return StoredJob(written, ledger, write_spec(ledger, written), write_round(ledger, first))


def failed_chunks(ledger: Ledger, number: int) -> dict[int, int]:
    """How many items of each chunk failed in a round, for chunks with failures."""
    found = ledger.store.list(layout.of_round(ledger.job, number, "failed"))
    return {chunk: int(count) for chunk, count in map(layout.chunk_of_marker, found)}
