"""Figures as people read them, spelled alike in every command and note."""

from __future__ import annotations


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
