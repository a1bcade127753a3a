"""A job's consumption of its limit: markers whose names hold the seconds, so that a listing adds them up.

Only jobs with a limit have them. A marker is of an attempt on a chunk, whether or not that attempt commits: work that a
reclaim ended was paid for too.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tidemill import layout
from tidemill.job import CostLimit, JobSpec
from tidemill.ledger.rounds import Round
from tidemill.store import Store

_PARALLEL = 16


def write_spent(store: Store, key: layout.ChunkKey, attempt: str, seconds: float) -> None:
    """Say how long an attempt on a chunk has held its slots so far, all slots added up."""
    store.put(layout.spent(key, attempt, round(1000 * seconds)), b"")


def spent_seconds(store: Store, job: str, rounds: int) -> float:
    """Seconds of slots that the first so many rounds of a job have consumed, by a listing of names."""
    folders = [layout.of_round(job, number, "spent") for number in range(rounds)]
    parts = [f"{folder}/{shard}" for folder in folders for shard in layout.SHARDS] if store.is_object_store else folders
    with ThreadPoolExecutor(_PARALLEL) as pool:
        return sum(pool.map(lambda part: _added_up(store, part), parts))


def _added_up(store: Store, folder: str) -> float:
    """The seconds in a folder. An attempt's marker says all of its seconds so far: the largest of them counts."""
    last: dict[str, int] = {}
    for name in store.list(folder):
        attempt, milliseconds = layout.parse_spent(name)
        last[attempt] = max(milliseconds, last.get(attempt, 0))
    return sum(last.values()) / 1000


def limit_of(spec: JobSpec, rounds: Sequence[Round]) -> CostLimit | None:
    """A job's cost limit: its spec's, or that of the newest of some rounds."""
    if spec.limit is None or not rounds or rounds[-1].max_usd is None:
        return spec.limit
    return spec.limit.model_copy(update={"max_usd": rounds[-1].max_usd})
