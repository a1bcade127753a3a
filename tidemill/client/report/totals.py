"""Adds up the heads of a job's records, with memory that does not grow with the job."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tidemill.client.report.model import Distribution, SlowItem
from tidemill.ledger import Outcome
from tidemill.ledger.digest import UNKNOWN, RunFacts, digest_of
from tidemill.sketch import WIDTH, Sketch

STEPS = 240
"""Steps of the timeline."""
SLOWEST = 50
MOST_MACHINES = 20_000
"""Machines that are told apart; of a larger fleet only types and zones are known."""
MOST_PLACES = 500
BARS = 36
MEASURES = ("wall", "cores", "memory", "gpu", "gpu_busy")

PlaceKey = tuple[str | None, str | None, str | None]
"""Type, zone and market of a machine."""


@dataclass
class Measure:
    """A sketch with its exact sum and largest value."""

    sketch: Sketch = field(default_factory=Sketch)
    sum: float = 0.0
    max: float = 0.0

    def add(self, packed: Mapping[str, Any]) -> None:
        self.sketch.add(packed["h"])
        self.sum += packed["sum"]
        self.max = max(self.max, packed["max"])

    def distribution(self, asked: float | None = None) -> Distribution | None:
        """None of nothing."""
        if not self.sketch.total:
            return None
        p50, p90, p95, p99 = (
            round(min(self.sketch.quantile(part), self.max or math.inf), 3) for part in (0.5, 0.9, 0.95, 0.99)
        )
        mean = round(self.sum / self.sketch.total, 3)
        return Distribution(
            self.sketch.total, mean, p50, p90, p95, p99, round(self.max, 3), asked, bars_of(self.sketch.counts)
        )


def bars_of(counts: Mapping[int, int]) -> list[tuple[float, float, int]]:
    """Buckets as at most `BARS` bars of equal width on a logarithmic axis."""
    low, high = min(counts), max(counts)
    width = max(1, -(-(high - low + 1) // BARS))
    bars: Counter[int] = Counter()
    for bucket, count in counts.items():
        bars[(bucket - low) // width] += count
    edges = [WIDTH ** (low - 1 + width * n) for n in range(max(bars) + 2)]
    return [(round(edges[n], 4), round(edges[n + 1], 4), bars[n]) for n in range(max(bars) + 1)]


class Steps:
    """Figures of a job in equal steps of time.

    Args:
        start: Seconds since the epoch.
        end: Seconds since the epoch, after `start`.
    """

    def __init__(self, start: float, end: float) -> None:
        self.start, self.step = start, max((end - start) / STEPS, 0.001)

    def at(self, moment: float) -> int:
        """The step of a moment; what is outside counts in the first or last step."""
        return min(STEPS - 1, max(0, int((moment - self.start) / self.step)))

    def spread(self, differences: list[float], begin: float, end: float, amount: float) -> None:
        """Spread an amount evenly over a time. The running sums of `differences` (`STEPS` + 1) are the mean rates."""
        first, last = self.at(begin), self.at(end)
        rate = amount / (self.step * (last - first + 1))
        differences[first] += rate
        differences[last + 1] -= rate


@dataclass
class PlaceTotal:
    """Totals of machines of one kind."""

    chunks: int = 0
    items: int = 0
    failed: int = 0
    held: float = 0.0
    succeeded: float = 0.0
    """Items that succeeded while the slots were held: those of an earlier attempt's progress took other slots."""


class Totals:
    """The sums of a job's records."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.measures = {name: Measure() for name in MEASURES}
        self.chunks = Measure()
        """How long chunks took from their lease to their record."""
        self.executions = self.records = 0
        self.held = self.fetch = self.upload = self.measured_work = 0.0
        self.tries = [0, 0, 0]
        self.reasons: Counter[str] = Counter()
        self.succeeded, self.failed = [0] * STEPS, [0] * STEPS
        self.busy: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * (STEPS + 1))
        self.places: defaultdict[PlaceKey, PlaceTotal] = defaultdict(PlaceTotal)
        self.machines: dict[str, tuple[float, float, PlaceKey]] = {}
        self.many_machines = False
        self.slowest: list[tuple[float, int, SlowItem]] = []
        """A heap by seconds; the numbers in between make every entry different."""
        self._entries = itertools.count()
        self.versions: Counter[str] = Counter()

    def add(self, head: Mapping[str, Any], digest: Mapping[str, Any]) -> None:
        """Add a record by its first line and its digest."""
        ended = datetime.fromisoformat(head["committed_at"]).timestamp()
        items, failed = int(head["items"]), int(head["failed"])
        self.records += 1
        self.versions[str(head.get("worker", "")).rpartition("tidemill/")[2][:40]] += 1
        machine = digest["machine"]
        key: PlaceKey = (machine["type"], machine["zone"], machine["market"])
        if key not in self.places and len(self.places) >= MOST_PLACES:
            key = (None, None, None)
        self._add_items(items, failed, digest, ended, key)
        place = self.places[key]
        place.chunks, place.items, place.failed = place.chunks + 1, place.items + items, place.failed + failed
        self._ran(digest, key, machine["id"], ended)

    def add_unfinished(self, outcomes: Sequence[Outcome], at: float) -> None:
        """Add what has ended of a chunk without a record, which was last written at a time. Where it ran is not known
        yet, and what it costs neither."""
        digest = digest_of(outcomes, RunFacts("", UNKNOWN, slots=1, held=0, fetch=0, upload=0, worked=0, succeeded=0))
        failed = sum(outcome.status == "failed" for outcome in outcomes)
        self._add_items(len(outcomes), failed, digest, at, (None, None, None))

    def _add_items(self, items: int, failed: int, digest: Mapping[str, Any], ended: float, key: PlaceKey) -> None:
        self.executions += items
        at = self.steps.at(ended)
        self.succeeded[at] += items - failed
        self.failed[at] += failed
        for name, measure in self.measures.items():
            if name in digest:
                measure.add(digest[name])
        self.tries = [one + other for one, other in zip(self.tries, digest["tries"], strict=True)]
        self.reasons.update(digest["reasons"])
        for index, seconds, attempts in digest["slow"]:
            self._slow((seconds, next(self._entries), SlowItem(index, seconds, attempts, key[0], key[1])))

    def _ran(self, digest: Mapping[str, Any], key: PlaceKey, machine: str | None, ended: float) -> None:
        began = min(datetime.fromisoformat(digest["started_at"]).timestamp(), ended)
        self.chunks.add({"h": Sketch([ended - began]).packed(), "sum": ended - began, "max": ended - began})
        held = digest["held"]
        self.held, self.fetch, self.upload = (
            self.held + held,
            self.fetch + digest["fetch"],
            self.upload + digest["upload"],
        )
        self.measured_work += digest["worked"]
        self.places[key].held += held
        self.places[key].succeeded += digest["succeeded"]
        self.steps.spread(self.busy[place_words(key)], began, ended, held)
        if machine is None:
            return
        span = self.machines.get(machine)
        if span is None and len(self.machines) >= MOST_MACHINES:
            self.many_machines = True
            return
        first, last = (min(span[0], began), max(span[1], ended)) if span else (began, ended)
        self.machines[machine] = (first, last, key)

    def _slow(self, item: tuple[float, int, SlowItem]) -> None:
        if len(self.slowest) < SLOWEST:
            heapq.heappush(self.slowest, item)
        elif item > self.slowest[0]:
            heapq.heapreplace(self.slowest, item)


def place_words(key: PlaceKey) -> str:
    """`c7i.4xlarge, spot`."""
    kind, _, market = key
    return ", ".join(part for part in (kind, (market or "").replace("_", "-")) if part) or "unknown machines"
