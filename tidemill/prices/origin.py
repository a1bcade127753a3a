"""Date and source of prices, which every printed figure carries."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

_DETAIL = re.compile(r", | \(")


class DatedPrice(Protocol):
    """A price, or another figure of the table."""

    @property
    def as_of(self) -> datetime.date:
        """Its day, or the oldest of its parts'."""
        ...

    @property
    def source(self) -> str:
        """Where it was read; several sources are separated by semicolons."""
        ...


@dataclass(frozen=True)
class PriceOrigin:
    """Where the prices of a figure are from.

    Attributes:
        as_of: Date of the oldest.
        sources: All that they were read from, as the table has it.
    """

    as_of: datetime.date
    sources: tuple[str, ...]

    def __str__(self) -> str:
        """`the oldest of 2026-01-19, from AWS Price List`: without the details of the sources."""
        return f"the oldest of {self.as_of}, from {brief(self.sources)}"


def origin(figures: Iterable[DatedPrice | None]) -> PriceOrigin | None:
    """The origin of what is known of some figures; None where nothing is."""
    dated = [figure for figure in figures if figure is not None]
    if not dated:
        return None
    sources = dict.fromkeys(source for figure in dated for source in figure.source.split("; "))
    return PriceOrigin(min(figure.as_of for figure in dated), tuple(sources))


def brief(sources: Iterable[str]) -> str:
    """Sources without their details: `AWS Price List, https://aws.amazon.com/kms/pricing/`."""
    return ", ".join(dict.fromkeys(_DETAIL.split(source, maxsplit=1)[0] for source in sources))
