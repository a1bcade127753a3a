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


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"
