"""Picks a bounded number of a job's records, evenly over the job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def evenly(values: Sequence[T], most: int) -> tuple[list[T], float]:
    """At most so many of some values, each from the middle of as many as it stands for; and how many those are."""
    step = max(1.0, len(values) / most)
    return [values[int((n + 0.5) * step)] for n in range(min(len(values), most))], step
