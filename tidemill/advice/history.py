"""Prices over time, and the bounds of a price."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from tidemill.advice.sources import Range

WEEK = datetime.timedelta(days=7)
QUARTER = datetime.timedelta(days=90)
_SLACK = datetime.timedelta(hours=1)
"""Prices now and prices of a span are not asked at the same moment, and either may come from the cache."""


@dataclass(frozen=True)
class PricePoint:
    """Price of a machine at one time, in USD per hour."""

    at: datetime.datetime
    usd: float


def ranged(moments: Iterable[PricePoint], now: PricePoint, span: datetime.timedelta) -> Range | None:
    """The bounds of what is known of a span before `now`; None where that is nothing."""
    points = [each for each in moments if now.at - span - _SLACK <= each.at <= now.at + _SLACK]
    if not points:
        return None
    costs = [now.usd, *(each.usd for each in points)]
    reach = min(span, max(datetime.timedelta(), now.at - min(each.at for each in points)))
    return Range(min(costs), max(costs), round(reach / datetime.timedelta(days=1), 2))
