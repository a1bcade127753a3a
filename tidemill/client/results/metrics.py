"""The metrics of a job: what its items have printed, read from the store and summed up per item."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from tidemill import layout
from tidemill.client.report.sampling import evenly
from tidemill.errors import CallerError
from tidemill.job import Item, JobSpec
from tidemill.ledger import Ledger
from tidemill.manifest import read_chunk
from tidemill.metrics import MetricValue, parse_values
from tidemill.store.ahead import in_order

_PARALLEL = 16


@dataclass(frozen=True)
class MetricFigures:
    """A metric of an item, from the values that are kept.

    Attributes:
        last: The last value; null where that is not a finite number, as of a loss that diverges.
        last_step: Its step, where the expression has a group `step`.
        lowest: The lowest finite value; null where there is none.
        values: How many values are kept.
    """

    last: float | None
    last_step: int | None
    lowest: float | None
    lowest_step: int | None
    highest: float | None
    highest_step: int | None
    values: int

    @classmethod
    def of(cls, values: Sequence[MetricValue]) -> MetricFigures:
        """The figures of some values, in the order in which they were printed."""
        finite = [one for one in values if math.isfinite(one.value)]
        last = values[-1]
        low = min(finite, key=lambda one: one.value, default=None)
        high = max(finite, key=lambda one: one.value, default=None)
        return cls(
            last.value if math.isfinite(last.value) else None,
            last.step,
            low and low.value,
            low and low.step,
            high and high.value,
            high and high.step,
            len(values),
        )


@dataclass(frozen=True)
class ItemMetrics:
    """The metrics of an item, by name; those that it has not printed are missing.

    Attributes:
        values: The values that are kept, in the order in which they were printed; empty unless they were asked for.
    """

    index: int
    uri: str
    meta: Mapping[str, Any] | None
    metrics: dict[str, MetricFigures]
    values: dict[str, list[MetricValue]] = field(default_factory=dict)

    def best(self, name: str, highest: bool) -> tuple[float | None, int | None]:
        """The lowest or highest value of a metric, and its step."""
        figures = self.metrics.get(name)
        if figures is None:
            return None, None
        return (figures.highest, figures.highest_step) if highest else (figures.lowest, figures.lowest_step)


def read_metrics(
    ledger: Ledger, spec: JobSpec, *, values: bool = False, most_chunks: int | None = None
) -> Iterator[ItemMetrics]:
    """Every item that has printed a metric, in the items' order; or those of so many chunks, evenly over the job.

    Raises:
        CallerError: The job looks for no metrics.
    """
    if not spec.metrics:
        raise CallerError(
            f"{spec.job} keeps no metrics.",
            "A job keeps those that its submit names: `metrics={NAME: REGEX}`, or --metric NAME=REGEX.",
            what="job",
        )
    names: dict[int, list[str]] = defaultdict(list)
    for round_ in ledger.rounds():
        for name in ledger.store.list(layout.of_round(spec.job, round_.round, "metrics")):
            names[layout.chunk_of_marker(name)[0]].append(name)
    with ThreadPoolExecutor(_PARALLEL) as pool:
        read = partial(_of_chunk, ledger, continues=spec.state is not None, values=values)
        chunks, _ = evenly(sorted(names), most_chunks or max(1, len(names)))
        for metrics in in_order(pool, lambda chunk: read(chunk, names[chunk]), chunks):
            yield from metrics


def ranked(items: Iterator[ItemMetrics], name: str, highest: bool) -> list[ItemMetrics]:
    """Items with a metric, the best first."""
    best = [(item.best(name, highest)[0], item) for item in items]
    measured = [(value, item) for value, item in best if value is not None]
    return [item for _, item in sorted(measured, key=lambda pair: pair[0], reverse=highest)]


def _of_chunk(ledger: Ledger, chunk: int, names: Sequence[str], *, continues: bool, values: bool) -> list[ItemMetrics]:
    store = ledger.store
    by_item: dict[int, list[list[MetricValue]]] = defaultdict(list)
    for name in names:
        attempts: dict[tuple[int, int], list[MetricValue]] = defaultdict(list)
        for value in parse_values(store.get(name), store.uri_of(name)):
            attempts[value.item, value.attempt].append(value)
        for (item, _), some in attempts.items():
            by_item[item].append(some)
    items = [item for item in read_chunk(store, ledger.job, chunk) if item.index in by_item]
    return [_summed_up(item, by_item[item.index], continues=continues, values=values) for item in items]


def _summed_up(item: Item, attempts: list[list[MetricValue]], *, continues: bool, values: bool) -> ItemMetrics:
    """The figures of an item. With state, an attempt continues the one before; otherwise only the newest one counts,
    because what an earlier one has printed says nothing of what this one made."""
    attempts.sort(key=lambda values: max(value.at for value in values))
    kept: dict[str, list[MetricValue]] = defaultdict(list)
    for value in chain.from_iterable(attempts if continues else attempts[-1:]):
        kept[value.name].append(value)
    figures = {metric: MetricFigures.of(some) for metric, some in sorted(kept.items())}
    return ItemMetrics(item.index, item.uri, item.meta, figures, dict(kept) if values else {})
