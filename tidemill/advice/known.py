"""What the tables of the package know of shapes."""

from __future__ import annotations

import math

from tidemill import prices
from tidemill.advice.rank import Bucket, DatedFigure, Price, ShapeFacts
from tidemill.advice.shapes import MachineShape


def from_tables(shape: MachineShape) -> ShapeFacts:
    """The facts of a shape that are in the tables."""
    bucket = _bucket(shape) if shape.market == "spot" else None
    return ShapeFacts(
        shape=shape, price=_price(shape), bucket=bucket, reclaim_hours=reclaim_hours(bucket) if bucket else None
    )


def reclaim_hours(bucket: Bucket) -> DatedFigure:
    """The mean time between reclaims of a machine that a bucket speaks of, taking the middle of its percentages.

    If the part p of machines is taken away in a month, and reclaims come at random, the mean is -month / ln(1 - p).
    """
    part = (bucket.low + bucket.high) / 200
    return DatedFigure(-prices.HOURS_A_MONTH / math.log1p(-part), bucket.as_of, bucket.source)


def _price(shape: MachineShape) -> Price | None:
    found = prices.machine(shape.cloud, shape.region, shape.machine.type, gpus=shape.machine.gpus)
    if found is None:
        return None
    if shape.market == "on_demand":
        usd = found.on_demand
        return None if usd is None else Price(usd, usd, usd, None, found.as_of, found.source)
    spot = found.spot
    return None if spot is None else Price(spot.high, spot.low, spot.high, None, spot.as_of, spot.source)


def _bucket(shape: MachineShape) -> Bucket | None:
    found = prices.interruption(shape.cloud, shape.region, shape.machine.type)
    return None if found is None else Bucket(found.low, found.high, found.as_of, found.source)
