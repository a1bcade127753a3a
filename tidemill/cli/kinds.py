"""Values of options: a duration, a size and a time mean the same wherever they are typed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from tidemill.figures import long_seconds_of, mebibytes_of, seconds_of


class Duration(click.ParamType[float]):
    """Seconds: `250ms`, `90s`, `7.2m`, `0.5h`, `2d`, or a number; with the least allowed, or None.

    `unit` refuses a number alone.
    """

    name = "time"

    def __init__(self, least: float | None = None, *, unit: bool = False) -> None:
        self._least = least
        self._unit = unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = seconds_of(str(value))
        if seconds is None:
            return self.fail(f"{value!r} is not a duration. Use seconds, or 250ms, 90s, 7.2m, 0.5h, 2d.", param, ctx)
        if self._unit and seconds is not None and long_seconds_of(str(value)) is None:
            return self.fail(f"{value!r} has no unit. Write {value}d for days, or 90s, 7.2m, 0.5h.", param, ctx)
        if self._least is not None and seconds < self._least:
            return self.fail(f"{value!r} is too short. The least is {self._least:g}s.", param, ctx)
        return seconds


class Size(click.ParamType[int]):
    """MiB: `512M`, `2G` (units of 1,024, as in a machine's memory), or a number of MiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        size = mebibytes_of(str(value))
        return size if size is not None else self.fail(f"{value!r} is not a size. Use MiB, or 512M, 2G.", param, ctx)


class Moment(click.ParamType[datetime]):
    """A time: a duration ago with its unit (`10m`), or ISO 8601, local where it names no zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            # A bare number may be a date: 20261121.
            if not value.isdecimal() and (ago := seconds_of(value)) is not None:
                return datetime.now(UTC) - timedelta(seconds=ago)
            return datetime.fromisoformat(value).astimezone(UTC)
        except (ValueError, OverflowError):
            use = "Use a time ago (90s, 10m, 1.5h, 3d), or 2026-11-21T09:30 (local, or with a zone: Z, +01:00)."
            return self.fail(f"{value!r} is not a time. {use}", param, ctx)
