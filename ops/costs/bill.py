"""Bills by month and team, as a cloud tells them, and the answers that were paid for and are kept."""

import dataclasses
import datetime
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidemill.folders import replace_file

FOLDER = Path(__file__).resolve().parents[2] / "build" / "costs"
"""Not tracked."""
KEPT_SECONDS = 6 * 3600
"""Both clouds update a bill some times per day."""


@dataclass(frozen=True)
class Cost:
    """The cost of one team and environment in a month.

    Attributes:
        month: Its first day.
        team: By the tag or label; empty where there is none.
        environment: The same.
        amount: Before credits, in `currency`.
        credits: Credits and refunds, below zero.
        currency: Of the bill.
    """

    month: datetime.date
    team: str
    environment: str
    amount: float
    credits: float
    currency: str


class BillError(Exception):
    """A cloud did not tell a bill. The text says why, and what to do."""


class Bill(Protocol):
    """A cloud that is asked for its bill."""

    def price(self, first: datetime.date, last: datetime.date) -> str:
        """The price of asking, before it is asked. Raises `BillError` if it cannot be asked."""
        ...

    def costs(self, first: datetime.date, last: datetime.date) -> list[Cost]:
        """The costs of some months, both included. Raises `BillError`."""
        ...


def months(count: int, day: datetime.date) -> list[datetime.date]:
    """The first days of the last months, the current one included, oldest first."""
    index = day.year * 12 + day.month - 1
    return [datetime.date(each // 12, each % 12 + 1, 1) for each in range(index - count + 1, index + 1)]


def after(month: datetime.date) -> datetime.date:
    """The first day of the month that follows."""
    return datetime.date(month.year + month.month // 12, month.month % 12 + 1, 1)


class Kept:
    """Answers of the last hours in a file; asking costs money.

    Args:
        name: What was asked, as a file's name.
    """

    def __init__(self, name: str, folder: Path | None = None, *, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = (folder or FOLDER) / f"{name}.json", clock

    def read(self) -> list[Cost] | None:
        """None where nothing is kept, or only what is too old or damaged."""
        try:
            # A clock that was put back makes an answer of the future.
            if abs(self._clock() - self._path.stat().st_mtime) > KEPT_SECONDS:
                return None
            rows = json.loads(self._path.read_text(encoding="utf-8"))
            return [Cost(**{**row, "month": datetime.date.fromisoformat(row["month"])}) for row in rows]
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, costs: Sequence[Cost]) -> None:
        """Keep an answer. Where it cannot be written it is shown all the same: it is paid."""
        rows = [{**dataclasses.asdict(cost), "month": cost.month.isoformat()} for cost in costs]
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, json.dumps(rows, indent=1).encode())
