"""Figures as people read them, spelled alike in every command and note."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice


def duration(seconds: float) -> str:
    """`20 ms`, `0.4 s`, `73 s`, `7.2 min`, `3.2 h`: what the options that take a time understand, with a space."""
    if 0 < seconds < 0.1:
        return f"{_short(seconds * 1000)} ms"
    if seconds < 120:
        return f"{_short(seconds)} s"
    return f"{_short(seconds / 60)} min" if seconds < 7200 else f"{_short(seconds / 3600)} h"


def counted(number: int, noun: str) -> str:
    """`1 chunk`, `3 chunks`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def span(low: str, high: str) -> str:
    """`2 to 4`, or `2` where both are the same."""
    return low if low == high else f"{low} to {high}"


def file_size(count: float) -> str:
    """Bytes as `512 B`, `3.4 MiB`, `20 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{_short(count)} {unit}"
        count /= 1024
    return f"{_short(count)} TiB"


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"


_SECONDS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_MEBIBYTES = {"": 1.0, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


def seconds_of(text: str) -> float | None:
    """The seconds of a duration as people type it: `250ms`, `90s`, `7.2m`, `0.5h`, `2d`, or a number of seconds; None
    if it is not one."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|)", text.strip())
    return float(match[1]) * _SECONDS[match[2]] if match else None


def long_seconds_of(text: str) -> float | None:
    """`seconds_of` where a number without a unit could be meant as days: None for one."""
    return None if text.strip()[-1:].isdecimal() else seconds_of(text)


def mebibytes_of(text: str) -> int | None:
    """The MiB of a size as people type it: `512M`, `2G` (units of 1,024, as in a machine's memory), or a number of MiB;
    None if it is not one."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:([MGT])(?:i?B)?)?", text.strip(), re.IGNORECASE)
    return round(float(match[1]) * _MEBIBYTES[(match[2] or "").upper()]) if match else None


ORIGINS = 3
"""Earlier jobs that a line names; it counts the others."""


def origins_words(origins: Mapping[str, int], items: int) -> str:
    """How many of a job's items are of which earlier job: `19,990 of words-a17f8d72, 10 of this job`."""
    named = [f"{count:,} of {job}" for job, count in islice(origins.items(), ORIGINS)]
    rest = list(origins.values())[ORIGINS:]
    more = [f"{sum(rest):,} of {counted(len(rest), 'other job')}"] if rest else []
    return ", ".join([*named, *more, f"{items - sum(origins.values()):,} of this job"])
