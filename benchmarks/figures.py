"""How a benchmark reports what it measured: one line per figure, the same for people and for scripts."""

from __future__ import annotations

import os
import platform
import sys

short: list[str] = []
"""Figures of this process that missed their limits."""


def figure(name: str, value: float, unit: str, limit: float, *, higher_is_better: bool = False) -> bool:
    """Print one figure: `bench NAME VALUE UNIT LIMIT ok|short`.

    Args:
        name: The measured quantity, in one word: `submit-500k-seconds`.
        value: The measurement.
        unit: Its unit, in one word; `x` for a ratio.
        limit: The largest good value.
        higher_is_better: The limit is the smallest good value instead.

    Returns:
        Whether the value is within its limit.
    """
    good = value >= limit if higher_is_better else value <= limit
    print(f"bench {name} {_number(value)} {unit} {_number(limit)} {'ok' if good else 'short'}", flush=True)
    if not good:
        short.append(name)
    return good


def _number(value: float) -> str:
    """Format four significant digits, never in powers of ten."""
    return f"{value:.0f}" if float(value).is_integer() or abs(value) >= 1000 else f"{value:.4g}"


def machine() -> str:
    """Describe machine and interpreter in one line, because figures of two of them are not comparable.

    The same version of Python may be a quarter slower in another build.
    """
    _, built = platform.python_build()
    python = f"Python {platform.python_version()} of {sys.base_prefix}, built {' '.join(built.split()[:3])}"
    return f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {python}"
