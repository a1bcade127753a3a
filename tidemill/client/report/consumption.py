"""Compares items' use of CPUs and memory with the request, from a bounded sample of a job's records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tidemill.client.report.sampling import evenly
from tidemill.descriptor import Resources
from tidemill.figures import counted, duration
from tidemill.ledger import Ledger, Listing, Outcome

SAMPLED_CHUNKS = 8
"""Records that are read, whatever the size of the job: `status` takes a few requests."""
SHORT_SECONDS = 0.1
"""Shorter items have no meaningful share of a CPU: CPU time has a resolution of 0.01 s."""
_ENOUGH = 10
"""Fewer items than this lead to no suggestion."""


@dataclass(frozen=True)
class Spread:
    """Median, 95th percentile and largest."""

    p50: float
    p95: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float], digits: int) -> Spread:
        """The spread of at least one value, by nearest rank."""
        ranked = sorted(values)
        at = [ranked[max(0, math.ceil(part * len(ranked)) - 1)] for part in (0.5, 0.95, 1)]
        return cls(*(round(value, digits) for value in at))


@dataclass(frozen=True)
class Consumption:
    """Resources that items took.

    Attributes:
        items: Items in the sample.
        chunks: Records that were read.
        seconds: Wall time of an item.
        cpus: Cores that an item kept busy: its CPU time over its wall time.
        memory_mib: Largest memory of an item in MiB, of those that were measured; 0 where none was.
        asked_cpus: Cores that the job asked for an item.
        asked_memory_mib: The same of memory.
        gpu_memory_mib: Largest memory in use on an item's GPUs in MiB; None where no item of the sample had one.
        gpu_percent: Share of time in which these were computing.
        asked_gpus: GPUs that the job asked for an item.
    """

    items: int
    chunks: int
    seconds: Spread
    cpus: Spread
    memory_mib: Spread
    asked_cpus: float
    asked_memory_mib: int
    gpu_memory_mib: Spread | None = None
    gpu_percent: Spread | None = None
    asked_gpus: int = 0

    @property
    def long(self) -> bool:
        """True if items take long enough for a share of a CPU to mean something."""
        return self.seconds.p50 >= SHORT_SECONDS

    def facts(self) -> dict[str, object]:
        time, sampled = self.seconds, f"{counted(self.items, 'item')} sampled"
        table: dict[str, object] = {
            "item time": f"p50 {duration(time.p50)}, p95 {duration(time.p95)}, max {duration(time.max)} ({sampled})",
            **({"CPUs": f"{_words(self.cpus)} of {self.asked_cpus:g}"} if self.long else {}),
            "memory": f"{_words(self.memory_mib) if self.memory_mib.max else 'unknown'} of {self.asked_memory_mib} MiB",
        }
        if self.gpu_percent:
            table["GPUs"] = f"{_words(self.gpu_percent)} % busy ({self.asked_gpus} per item)"
        if self.gpu_memory_mib:
            table["GPU memory"] = f"{_words(self.gpu_memory_mib)} MiB"
        return table


def _words(spread: Spread) -> str:
    return f"p50 {spread.p50:g}, p95 {spread.p95:g}, max {spread.max:g}"


def sample(ledger: Ledger, listing: Listing, resources: Resources) -> Consumption | None:
    """Resources that items took, from a few records; None when nothing has run."""
    ran, chunks = read_sample(ledger, listing)
    return _of(ran, chunks, resources) if ran else None


def read_sample(ledger: Ledger, listing: Listing) -> tuple[list[Outcome], int]:
    """Outcomes of items that ran, from a few records that are spread evenly over what is done, and their number."""
    done = sorted((chunk, number) for number, chunks in listing.done.items() for chunk in chunks)
    chosen, _ = evenly(done, SAMPLED_CHUNKS)
    with ThreadPoolExecutor(SAMPLED_CHUNKS) as pool:
        records = [record for record in pool.map(lambda at: ledger.chunk(at[1], at[0]).committed(), chosen) if record]
    return [outcome for record in records for outcome in record.outcomes if outcome.wall_seconds > 0], len(records)


def _of(ran: Sequence[Outcome], chunks: int, resources: Resources) -> Consumption:
    return Consumption(
        items=len(ran),
        chunks=chunks,
        seconds=Spread.of([outcome.wall_seconds for outcome in ran], 3),
        cpus=Spread.of([outcome.cpu_seconds / outcome.wall_seconds for outcome in ran], 2),
        # Items that end at once are not measured.
        memory_mib=Spread.of([outcome.peak_memory_mib for outcome in ran if outcome.peak_memory_mib] or [0.0], 1),
        asked_cpus=resources.cpus,
        asked_memory_mib=resources.memory_mib,
        gpu_memory_mib=_known([outcome.peak_gpu_memory_mib for outcome in ran]),
        gpu_percent=_known([outcome.gpu_percent for outcome in ran]),
        asked_gpus=resources.gpus,
    )


def _known(values: Sequence[float | None]) -> Spread | None:
    measured = [value for value in values if value is not None]
    return Spread.of(measured, 1) if measured else None


def suggestion(taken: Consumption, *, grows: bool = False) -> str | None:
    """Suggest another request, where it makes a difference; None where all is well or too little is known. `grows` is
    whether items get more memory when they need it."""
    if taken.items < _ENOUGH:
        return None
    words: list[str] = []
    # A fifth above the largest, rounded up to steps of machine sizes.
    memory = max(256, 256 * math.ceil(taken.memory_mib.max * 1.2 / 256))
    if grows:
        pass
    elif taken.memory_mib.max > 0.9 * taken.asked_memory_mib:
        words.append(f"`memory_mib={memory}`: the largest item came near its limit")
    elif taken.memory_mib.max and memory <= taken.asked_memory_mib / 2:
        words.append(f"`memory_mib={memory}` is enough, and more items would fit on a machine")
    cpus = max(1, math.ceil(taken.cpus.p95))
    if not taken.long:
        pass
    elif cpus < taken.asked_cpus:
        words.append(f"`cpus={cpus}` is enough")
    elif taken.cpus.p50 > 0.9 * taken.asked_cpus and taken.cpus.max > 1.3 * taken.asked_cpus:
        words.append(f"`cpus={cpus}`: items use more than they ask for")
    return "; ".join(words) or None
