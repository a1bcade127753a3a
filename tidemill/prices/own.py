"""Prices that a company has agreed with its cloud, or knows itself: one file, which no refresh touches.

``data/own.json`` is a list of rows, written by `python -m ops prices set` or by hand. A row counts in place of the
list price of its machine type in its region, for every figure, cap and limit.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tidemill.errors import CallerError

NAME = "own.json"
_TEXTS = ("cloud", "region", "type", "as_of", "source")
_ALL = {*_TEXTS, "usd_hour"}


@dataclass(frozen=True)
class OwnPrice:
    """The On-Demand price of a running machine, in USD per hour; a Spot machine never costs more."""

    cloud: str
    region: str
    type: str
    """As in the table: `p5.48xlarge`, or `n1-standard-8+1t4` with an attached T4."""
    usd_hour: float
    as_of: datetime.date
    source: str


@cache
def read(path: Path) -> Mapping[tuple[str, str, str], OwnPrice]:
    """The rows of a file by cloud, region and type; none if there is no file.

    Raises:
        CallerError: The file is not a list of such rows, or has two of a machine type and region.
    """
    if not path.is_file():
        return {}
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CallerError(f"{path} cannot be read: {error}.", "Correct it, or restore it from git.") from None
    if not isinstance(rows, list):
        raise CallerError.about(str(path), type(rows).__name__, "a list of prices", "docs/money.md shows one.")
    prices = [_price(f"{path}, row {number}", row) for number, row in enumerate(rows, start=1)]
    by_key = {(price.cloud, price.region, price.type): price for price in prices}
    if len(by_key) < len(prices):
        raise CallerError(f"{path} has two prices of one machine type in one region.", "Delete one of them.")
    return by_key


def _price(where: str, row: Any) -> OwnPrice:
    if not isinstance(row, dict) or row.keys() != _ALL:
        keys = ", ".join(sorted(row)) if isinstance(row, dict) else type(row).__name__
        raise CallerError.about(where, keys, f"an object with {', '.join(sorted(_ALL))}", "docs/money.md shows one.")
    for key in _TEXTS:
        if not isinstance(row[key], str) or not row[key]:
            raise CallerError.about(f"{where}, {key}", row[key], "a text", "docs/money.md shows a row.")
    usd = row["usd_hour"]
    if isinstance(usd, bool) or not isinstance(usd, int | float) or not (math.isfinite(usd) and usd > 0):
        raise CallerError.about(
            f"{where}, usd_hour", usd, "USD per hour, above 0", "Delete the row for the list price."
        )
    try:
        day = datetime.date.fromisoformat(row["as_of"])
    except ValueError:
        raise CallerError.about(f"{where}, as_of", row["as_of"], "a day", "Write it like 2026-11-23.") from None
    return OwnPrice(row["cloud"], row["region"], row["type"], float(usd), day, row["source"])
