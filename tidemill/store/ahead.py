"""Calls side by side, with their results in order. A leaf of the standard library alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_order(pool: ThreadPoolExecutor, do: Callable[[T], R], things: Iterable[T], ahead: int = 16) -> Iterator[R]:
    """Results of calls in the order of the things, so many of them begun ahead: that number, not that of the things,
    decides what memory they take. The first error ends it, once the calls that have begun are over."""
    begun: deque[Future[R]] = deque()
    try:
        for thing in things:
            if len(begun) >= ahead:
                yield begun.popleft().result()
            begun.append(pool.submit(do, thing))
        while begun:
            yield begun.popleft().result()
    finally:
        # A pool that was shut down says no more of those that it will not begin.
        wait([future for future in begun if not future.cancel()])
