"""Metrics of a chunk's items: looked for in what they print, thinned out, and stored as one object per attempt."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tidemill.ledger import ChunkLedger, Outcome
from tidemill.metrics import MetricPattern, MetricValue, encode_values
from tidemill.worker.chunks.observers import ChunkObserver, ObservedChunk
from tidemill.worker.lease import Lease
from tidemill.worker.output import log

SHARE = 0.05
"""The most of an item's time that looking at its lines may take: its output waits for that long."""
BURST_SECONDS = 0.2
LINE_SECONDS = 0.01
"""How long an expression may take on a line. An expression that is slower three times is given up."""
STRIKES = 3
KEPT_LINES = 200
"""Of the lines that there was no time for, so many of the last are looked at when the attempt ends."""
MAX_POINTS = 4000
"""Values of a chunk, all items together, from which on every other one is dropped: about 400 KB."""
MAX_SERIES = 2000
"""Different metrics of different items in a chunk; further ones are not kept."""


class MetricWatch:
    """Looks for metrics in the lines of one item."""

    def __init__(
        self, patterns: Sequence[MetricPattern], item: int, values: deque[MetricValue], labels: Mapping[str, Any]
    ) -> None:
        self._patterns, self._item, self._found = list(patterns), item, values
        self._labels = {**labels, "item": item}
        self._strikes = dict.fromkeys(patterns, 0)
        self._credit, self._since = BURST_SECONDS, time.monotonic()
        self._late: deque[str] = deque(maxlen=KEPT_LINES)
        self.skipped = 0

    def look(self, lines: Sequence[str], attempt: int) -> None:
        """Look at some lines, as long as there is time for it."""
        for line in lines:
            now = time.monotonic()
            self._credit = min(BURST_SECONDS, self._credit + SHARE * (now - self._since))
            self._since = now
            if self._credit <= 0:
                self.skipped += 1
                self._late.append(line)
                continue
            self._search(line, attempt)
            self._credit -= time.monotonic() - now

    def end(self, attempt: int) -> None:
        """The attempt has ended: look at its last lines, if there was no time for them."""
        until = time.monotonic() + BURST_SECONDS
        while self._late and time.monotonic() < until:
            self.skipped -= 1
            self._search(self._late.pop(), attempt)
        self._late.clear()
        if self.skipped:
            text = "lines were not searched for metrics: the item prints faster than they can be searched"
            log(f"{self.skipped} {text}", "warning", **self._labels)
            self.skipped = 0

    def _search(self, line: str, attempt: int) -> None:
        # A progress bar writes its line again and again.
        for part in line.split("\r") if "\r" in line else (line,):
            for pattern in tuple(self._patterns):
                try:
                    match = pattern.find(part, LINE_SECONDS)
                except TimeoutError:
                    self._strike(pattern)
                    continue
                if match is not None:
                    value = MetricValue(time.time(), self._item, attempt, match[0], pattern.name, match[1])
                    self._found.append(value)

    def _strike(self, pattern: MetricPattern) -> None:
        self._strikes[pattern] += 1
        if self._strikes[pattern] == STRIKES:
            self._patterns.remove(pattern)
            text = f"the expression of metric {pattern.name!r} is too slow for what the item prints; it is given up"
            log(text, "warning", **self._labels, metric=pattern.name)


class _Point(NamedTuple):
    number: int
    value: MetricValue


class Series:
    """The values of one metric of an item. However many are dropped, the lowest, the highest and the last one stay."""

    def __init__(self) -> None:
        self._every, self._count = 1, 0
        # Each with its number: the clock may be set back.
        self._points: list[_Point] = []
        self._low: _Point | None = None
        self._high: _Point | None = None
        self._last: _Point | None = None

    def add(self, value: MetricValue) -> None:
        point = _Point(self._count, value)
        if self._count % self._every == 0:
            self._points.append(point)
        self._count += 1
        self._last = point
        if self._low is None or value.value < self._low.value.value or math.isnan(self._low.value.value):
            self._low = point
        if self._high is None or value.value > self._high.value.value or math.isnan(self._high.value.value):
            self._high = point

    def __len__(self) -> int:
        return len(self._points)

    def thin(self) -> None:
        """Drop every other value."""
        self._points, self._every = self._points[::2], 2 * self._every

    @property
    def values(self) -> list[MetricValue]:
        """The kept values, in the order in which they were printed."""
        kept = {one.number: one.value for one in (*self._points, self._low, self._high, self._last) if one is not None}
        return [kept[number] for number in sorted(kept)]


class MetricLog(ChunkObserver):
    """Stores what the items of a chunk have printed so far: one object, which is written again when there is more.

    Each write is a request that the cloud bills, so there is at most one per `pace` seconds and chunk.
    """

    def __init__(self, ledger: ChunkLedger, lease: Lease, patterns: Sequence[MetricPattern], pace: float) -> None:
        super().__init__(pace)
        self._ledger, self._lease, self._patterns = ledger, lease, patterns
        self._found: deque[MetricValue] = deque()
        self._series: dict[tuple[int, str], Series] = {}
        self._unsaved = False

    def watch(self, item: int, labels: Mapping[str, Any]) -> MetricWatch:
        return MetricWatch(self._patterns, item, self._found, labels)

    def on_item(self, chunk: ObservedChunk, outcome: Outcome) -> None:
        self._take()

    def on_tick(self, chunk: ObservedChunk) -> None:
        self._save()

    def on_commit(self) -> None:
        self._save()

    def on_end(self, chunk: ObservedChunk, how: str | None) -> None:
        self._save()

    def _take(self) -> None:
        for _ in range(len(self._found)):
            value = self._found.popleft()
            key = (value.item, value.name)
            if key not in self._series and len(self._series) >= MAX_SERIES:
                continue
            self._series.setdefault(key, Series()).add(value)
            self._unsaved = True
        while sum(map(len, self._series.values())) > max(MAX_POINTS, len(self._series)):
            for series in self._series.values():
                series.thin()

    def _save(self) -> None:
        self._take()
        if self._unsaved:
            values = [value for series in self._series.values() for value in series.values]
            self._ledger.write_metrics(self._lease.id, encode_values(values))
            self._unsaved = False
