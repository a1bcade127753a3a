"""The curves of a job's metrics for its report: a few items, and of each a few hundred values."""

from __future__ import annotations

from collections.abc import Iterable

from tidemill.client.report.model import MetricCurve, MetricCurves
from tidemill.client.report.sampling import evenly
from tidemill.client.report.svg import SERIES
from tidemill.client.results.metrics import read_metrics
from tidemill.job import JobSpec
from tidemill.ledger import Ledger
from tidemill.metrics import MetricValue

CHUNKS, POINTS = 64, 200
"""Chunks that are read, and values of a curve, at most."""
MOST_STEPS, MOST = 10**15, 1e150
"""A program may print any step and value; none beyond these is drawn."""


def metric_curves(ledger: Ledger, spec: JobSpec) -> list[MetricCurves]:
    """The curves of each metric that the job looks for and an item has printed."""
    found: dict[str, list[MetricCurve]] = {name: [] for name in spec.metrics}
    stepped = set(spec.metrics)
    for item in read_metrics(ledger, spec, values=True, most_chunks=CHUNKS) if spec.metrics else ():
        for name, values in item.values.items():
            if any(one.step is None for one in values):
                stepped.discard(name)
            if points := _points(values):
                found.setdefault(name, []).append(MetricCurve(item.index, item.uri, points))
    return [
        MetricCurves(name, len(curves), name in stepped, _spread(curves)) for name, curves in found.items() if curves
    ]


def _points(values: Iterable[MetricValue]) -> list[tuple[float, float]]:
    """Finite values with their steps; without steps, with their numbers."""
    some = [
        (float(number if one.step is None else min(one.step, MOST_STEPS)), one.value)
        for number, one in enumerate(values, 1)
        if abs(one.value) < MOST
    ]
    # The end is what people compare.
    return [*evenly(some[:-1], POINTS)[0], *some[-1:]]


def _spread(curves: list[MetricCurve]) -> list[MetricCurve]:
    """As many as there are colours, by their last values: the lowest, the highest, and some between them."""
    ranked = sorted(curves, key=lambda curve: curve.points[-1][1])
    most = min(SERIES, len(ranked))
    places = (round(n * (len(ranked) - 1) / max(1, most - 1)) for n in range(most))
    return [ranked[place] for place in places]
