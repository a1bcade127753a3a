"""Values of options: a duration and a size mean the same wherever they are typed."""

from __future__ import annotations

import re
from typing import Any

import click

_SECONDS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_MEBIBYTES = {"": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


def seconds_of(text: str) -> float | None:
    """The seconds of a duration as people type it; None if it is not one."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|)", text.strip())
    return float(match[1]) * _SECONDS[match[2]] if match else None


class Duration(click.ParamType[float]):
    """Seconds: `250ms`, `90s`, `7.2m`, `0.5h`, `2d`, or a number; with the least allowed, or None."""

    name = "time"

    def __init__(self, least: float | None = None) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = seconds_of(str(value))
        if seconds is None:
            return self.fail(f"{value!r} is not a duration. Use seconds, or 250ms, 90s, 7.2m, 0.5h, 2d.", param, ctx)
        if self._least is not None and seconds < self._least:
            return self.fail(f"{value!r} is too short. The least is {self._least:g}s.", param, ctx)
        return seconds


class Size(click.ParamType[int]):
    """MiB: `512M`, `2G` (units of 1,024, as in a machine's memory), or a number of MiB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([MGT])(?:i?B)?)?", str(value).strip(), re.IGNORECASE)
        if found is None:
            return self.fail(f"{value!r} is not a size. Use MiB, or 512M, 2G.", param, ctx)
        return round(float(found[1]) * _MEBIBYTES[(found[2] or "").upper()])
