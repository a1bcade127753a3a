"""How many items travel together, and how chunks become arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, repeat

from tidemill.errors import CallerError
from tidemill.figures import counted, duration
from tidemill.job import MAX_CHUNK_ITEMS, MAX_CHUNKS
from tidemill.ledger.rounds import RoundArray, array_name

CHUNK_SECONDS = 240
"""Three to five minutes: long compared with a container's start, short compared with a Spot machine's life."""
LEARNING_CHUNKS = 4
SMALLER = 8
"""How many times smaller the first chunks are."""
LIGHTEST = 16
"""How many times more items than planned a chunk of light ones may have."""
ITEM_SECONDS = 10
ITEM_SECONDS_HERE = 0.25
"""On this machine: short, so that the number of CPUs decides the size of chunks."""
"""How long an item takes, when the caller does not say."""


def choose_chunk_size(items: int, fleet_slots: int, item_seconds: float | None, asked: int | None) -> int:
    """Items per chunk: as asked, else by the expected time of an item, so that all `fleet_slots` have work.

    Raises:
        CallerError: What is asked makes more chunks than a job may have.
    """
    least = -(-items // MAX_CHUNKS)
    if asked is not None:
        if asked < least:
            allowed = f"at least {least} for {items} items ({MAX_CHUNKS} chunks per job)"
            raise CallerError.about("chunk_size", asked, allowed, "Leave it out to have it chosen.")
        return asked
    by_time = round(CHUNK_SECONDS / (item_seconds or ITEM_SECONDS))
    return max(1, least, min(by_time, -(-items // fleet_slots)))


@dataclass(frozen=True)
class Plan:
    """How a job's items become chunks.

    Attributes:
        chunk_size: Items per chunk.
        first: Sizes of the first chunks where they are smaller: how long an item takes is then known early, and a
            mistake in the command costs little.
        why: Why this size, in words.
        cut: The size of each chunk where they differ throughout; `chunk_size` is then the largest.
    """

    items: int
    chunk_size: int
    first: tuple[int, ...] = ()
    why: str = ""
    cut: tuple[int, ...] = ()

    @property
    def chunks(self) -> int:
        return len(self.cut) or len(self.first) + -(-(self.items - sum(self.first)) // self.chunk_size)

    def sizes(self) -> Iterator[int]:
        """The size of each chunk; the last may get less."""
        return iter(self.cut) if self.cut else islice(chain(self.first, repeat(self.chunk_size)), self.chunks)

    def words(self) -> str:
        """`23 chunks of 24, assuming 10 s per item (set `item_seconds`); 4 small chunks go first to measure it`."""
        if self.cut:
            return f"{counted(self.chunks, 'chunk')} of up to {self.chunk_size}, all expected to take equally long"
        first = f"; {len(self.first)} small chunks go first to measure it" if self.first else ""
        return f"{counted(self.chunks, 'chunk')} of {self.chunk_size}{self.why and ', ' + self.why}{first}"


def plan_chunks(
    items: int, fleet_slots: int, item_seconds: float | None, asked: int | None, max_parallel: int | None = None
) -> Plan:
    """Choose chunks, see `choose_chunk_size`. The first chunks are small only where an item's time is unknown.

    With `max_parallel`, there are at most so many chunks, and the items of each run one after the other.

    Raises:
        CallerError: What is asked makes more chunks than a job may have, or than may run at once.
    """
    if max_parallel is not None:
        return _capped(items, asked, max_parallel)
    size = choose_chunk_size(items, fleet_slots, item_seconds, asked)
    if asked is not None:
        return Plan(items, size)
    how = "" if item_seconds else " (set `item_seconds`)"
    plan = Plan(items, size, (), f"assuming {duration(item_seconds or ITEM_SECONDS)} per item{how}")
    learning = Plan(items, size, (max(1, size // SMALLER),) * LEARNING_CHUNKS, plan.why)
    worth_it = item_seconds is None and size >= SMALLER and plan.chunks >= 2 * LEARNING_CHUNKS
    return learning if worth_it and learning.chunks <= MAX_CHUNKS else plan


def of_equal_weight(plan: Plan, weights: Sequence[float]) -> Plan:
    """About as many chunks as a plan has, cut where each weighs as much as the others; the plan itself where nothing
    weighs anything.

    Args:
        plan: The chunks by number.
        weights: Of the items, in their order.
    """
    if not any(weights):
        return plan
    wanted = min(plan.chunks, MAX_CHUNKS - MAX_CHUNKS // LIGHTEST - 1)
    each, most = sum(weights) / wanted, LIGHTEST * plan.chunk_size
    cut, items, weight = list[int](), 0, 0.0
    for one in weights:
        items, weight = items + 1, weight + one
        if weight >= each or items >= most:
            cut.append(items)
            items, weight = 0, 0.0
    if items:
        cut.append(items)
    return Plan(plan.items, max(cut), cut=tuple(cut))


def of_items_to_run(whole: Plan, plan: Plan, runs: Iterable[int], max_parallel: int | None) -> Plan:
    """Chunks with about as many items to run as those of a plan for these alone, and with no more items than those of a
    plan for the whole list, so that what is read of a chunk stays short.

    Args:
        whole: For all items.
        plan: For those that run.
        runs: By item, 1 where it runs, else 0.
        max_parallel: At most so many chunks may have items that run; each is then as long as it takes.
    """
    room = max(1, MAX_CHUNKS - plan.chunks - 1)
    most = MAX_CHUNK_ITEMS if max_parallel else max(whole.chunk_size, -(-whole.items // room))
    cut, items, running = list[int](), 0, 0
    for one in runs:
        if items == most or (one and running == plan.chunk_size):
            cut.append(items)
            items = running = 0
        items, running = items + 1, running + one
    cut.append(items)
    return Plan(whole.items, max(cut), cut=tuple(cut))


def _capped(items: int, asked: int | None, most: int) -> Plan:
    size = -(-items // most)
    if asked is not None and asked < size:
        allowed = f"at least {size} for {items} items when {most} run at once"
        raise CallerError.about("chunk_size", asked, allowed, "Leave it out to have it chosen.")
    if size > MAX_CHUNK_ITEMS:
        allowed = f"at least {-(-items // MAX_CHUNK_ITEMS)} for {items} items"
        raise CallerError.about("max_parallel", most, allowed, "Let more items run at once.")
    noun = "item runs" if most == 1 else "items run"
    return Plan(items, asked or size, (), f"so that at most {most} {noun} at once")


def check_sizes(item_seconds: float | None, chunk_size: int | None) -> None:
    """Refuse what is wrong for any number of items."""
    if item_seconds is not None and not item_seconds > 0:
        raise CallerError.about("item_seconds", item_seconds, "more than 0", "Leave it out when unknown.")
    if chunk_size is not None and chunk_size < 1:
        raise CallerError.about("chunk_size", chunk_size, "at least 1", "Leave it out to have it chosen.")


def arrays_of(job: str, number: int, chunks: Sequence[int], limit: int) -> list[RoundArray]:
    """A round's chunks as arrays of nearly equal size.

    Equal, because an array of one is refused by AWS Batch (2 to 10,000,
    https://docs.aws.amazon.com/batch/latest/userguide/array_jobs.html): 10,001 chunks are 5,001 and 5,000, not 10,000
    and 1. Only a round of a single chunk is an array of one, which a backend enqueues as a plain job. A range of chunks
    stays a range; `limit` is how many chunks an array may have.
    """
    count = -(-len(chunks) // limit)
    size, larger = divmod(len(chunks), max(count, 1))
    starts = [k * size + min(k, larger) for k in range(count + 1)]
    slices = [chunks[start:end] for start, end in pairwise(starts)]
    return [_array(array_name(job, number, k), part) for k, part in enumerate(slices)]


def _array(name: str, part: Sequence[int]) -> RoundArray:
    if isinstance(part, range):
        return RoundArray(name=name, first=part.start, count=len(part))
    return RoundArray(name=name, chunks=list(part))
