"""Combines facts about shapes from the package's tables, the clouds and own jobs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from tidemill import prices
from tidemill.advice.own_figures import OwnFigures
from tidemill.advice.rank import Bucket, DatedFigure, Price, ReclaimMean, ShapeFacts, ShapeScore
from tidemill.advice.shapes import MachineShape
from tidemill.advice.sources import LiveAnswer, PlacementScore, Range, SpotPrice

TENTHS = 10
"""AWS's scores go from 1 to this."""


class Knowledge:
    """Facts about any shape. A cloud's answer replaces the table's figure; own jobs replace both.

    Args:
        live: The clouds' answers.
        own: Figures of own jobs.
    """

    def __init__(self, live: LiveAnswer | None = None, own: OwnFigures | None = None) -> None:
        self._live, self._own = live or LiveAnswer(), own
        self._prices: defaultdict[tuple[str, str], list[SpotPrice]] = defaultdict(list)
        for price in self._live.prices:
            self._prices[price.region, price.type].append(price)
        self._scores = {(each.region, each.zone_id): each for each in self._live.scores}
        self._capacity = {each.region: each for each in self._live.capacity}
        self._parts = {(each.region, each.type): each for each in self._live.reclaims}
        self._missing = {(each.region, each.type) for each in self._live.offered if not each.value and not each.zone}

    def sold(self, shape: MachineShape) -> bool:
        """False where the cloud says that the region does not have the type."""
        return (shape.region, shape.type) not in self._missing

    def of(self, shape: MachineShape) -> ShapeFacts:
        """All that is known of a shape."""
        own = self._own if self._own and self._own.cloud == shape.cloud else None
        speed = own.items_per_second.get(shape.type) if own else None
        if shape.market == "on_demand":
            return ShapeFacts(shape, price=_listed(shape), items_per_second=speed)
        bucket = _bucket(shape)
        mean = own.reclaims.get(shape.type) if own and own.region == shape.region else None
        return ShapeFacts(
            shape=shape,
            price=self._now(shape) or _listed(shape),
            score=self._score(shape),
            bucket=bucket,
            reclaimed_part=self._part(shape),
            uptime=self._uptime(shape),
            reclaims=mean or (of_bucket(bucket) if bucket else None),
            items_per_second=speed,
        )

    def _now(self, shape: MachineShape) -> Price | None:
        """The Spot price that the cloud has said, over the shape's zones."""
        rows = [each for each in self._prices[shape.region, shape.type] if shape.zone in (None, each.zone_id)]
        whole = [each for each in rows if each.zone is None]
        priced = [(each, each.value) for each in whole or rows if each.value is not None]
        if not priced:
            return None
        now = max(value for _, value in priced)
        seen = _widest([span for each, _ in priced if (span := each.quarter or each.week)])
        return Price(
            now=now,
            low=min(now, seen.low) if seen else now,
            high=max(now, seen.high) if seen else now,
            days=seen.days if seen else None,
            as_of=min(each.as_of for each, _ in priced),
            source=priced[0][0].source,
            week=_widest([each.week for each, _ in priced if each.week]),
        )

    def _score(self, shape: MachineShape) -> ShapeScore | None:
        if score := self._scores.get((shape.region, shape.zone)):
            return of_ten(score)
        advice = self._capacity.get(shape.region)
        if advice is None or advice.value is None:
            return None
        return ShapeScore(advice.value, advice.as_of, advice.source, 1)

    def _part(self, shape: MachineShape) -> DatedFigure | None:
        rate = self._parts.get((shape.region, shape.type))
        return DatedFigure(rate.value, rate.as_of, rate.source) if rate and rate.value is not None else None

    def _uptime(self, shape: MachineShape) -> DatedFigure | None:
        advice = self._capacity.get(shape.region)
        return DatedFigure(advice.uptime, advice.as_of, advice.source) if advice and advice.uptime else None


def of_ten(score: PlacementScore) -> ShapeScore:
    """AWS's score."""
    return ShapeScore(score.value, score.as_of, score.source, TENTHS)


def of_bucket(bucket: Bucket) -> ReclaimMean:
    """The mean time between reclaims of a machine that a bucket speaks of, taking the middle of its percentages.

    If the part p of machines is taken away in a month, and reclaims come at random, the mean is -month / ln(1 - p).
    """
    part = min(0.99, (bucket.low + bucket.high) / 200)
    return ReclaimMean(-prices.HOURS_A_MONTH / math.log1p(-part), bucket.as_of, bucket.source, "bucket")


def _widest(ranges: Sequence[Range]) -> Range | None:
    """The range that contains all of them."""
    if not ranges:
        return None
    return Range(min(each.low for each in ranges), max(each.high for each in ranges), max(each.days for each in ranges))


def _listed(shape: MachineShape) -> Price | None:
    """The price that the table has."""
    cloud, region, machine = shape.cloud, shape.region, shape.machine
    if shape.market == "on_demand":
        fixed = prices.on_demand(cloud, region, machine.type, gpus=machine.gpus)
        return Price(fixed.usd, fixed.usd, fixed.usd, None, fixed.as_of, fixed.source) if fixed else None
    price = prices.machine(cloud, region, machine.type, gpus=machine.gpus)
    spot = price.spot if price else None
    return Price(spot.high, spot.low, spot.high, None, spot.as_of, spot.source) if spot else None


def _bucket(shape: MachineShape) -> Bucket | None:
    percent = prices.interruption(shape.cloud, shape.region, shape.machine.type)
    return None if percent is None else Bucket(percent.low, percent.high, percent.as_of, percent.source)
