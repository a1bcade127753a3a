"""`longest_first`: items in the order of how long each is expected to take.

A machine stays until its last item has ended. Where long items come last, most of its slots are empty meanwhile.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from tidemill.chain import SCHEME
from tidemill.client.items.local_files import path_of
from tidemill.client.items.source import Block, ItemSource, wrong_items
from tidemill.client.journal import find_spec
from tidemill.errors import CallerError, shown
from tidemill.ledger import Ledger
from tidemill.store import Store

SIZE = "size"
Weigh = Callable[[ItemSource, Block], Iterable[float]]


def weigher(by: str, store: Store) -> Weigh:
    """Choose the function that weighs how long an item takes compared with others.

    Args:
        by: `size` for the bytes of each item, `job://JOB` for the seconds that another job took for it, or a key of the
            items' metadata that holds a number.
        store: The job store.

    Raises:
        CallerError: There is no such job, or it has not ended.
    """
    if by == SIZE:
        return _sizes
    if by.startswith(SCHEME):
        return _MeasuredSeconds(store, by)
    return lambda source, block: _numbers(by, source, block)


def order_of(weights: Sequence[float]) -> list[int]:
    """The items' indexes, the heaviest first. Items of equal weight keep their order."""
    return sorted(range(len(weights)), key=weights.__getitem__, reverse=True)


def _sizes(source: ItemSource, block: Block) -> Iterable[float]:
    if block.sizes is not None:
        return block.sizes
    return [_size(source, uri, place) for uri, place in zip(block.uris, block.places, strict=True)]


def _size(source: ItemSource, uri: str, place: int) -> float:
    path = path_of(uri)
    if path is None:
        raise CallerError(
            f"longest_first is 'size', and no listing tells the size of {source.where(place)} ({shown(uri)}).",
            "Give a folder, a prefix or a pattern as the items, or a column of numbers: longest_first='COLUMN'.",
            what="longest_first",
            value=SIZE,
        )
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise wrong_items(f"{source.where(place)} is {shown(uri)}, which cannot be read: {error.strerror}.") from None


def _numbers(key: str, source: ItemSource, block: Block) -> Iterable[float]:
    for place, meta in zip(block.places, block.metas or [None] * len(block.uris), strict=True):
        value: Any = (meta or {}).get(key)
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not (math.isfinite(number) and number >= 0):
            has = f"has {shown(value)} there" if meta and key in meta else "has no such metadata"
            raise CallerError(
                f"longest_first is {key!r}, and {source.where(place)} {has}.",
                "Give a number of 0 or more with each item, or `size`, or job://JOB.",
                what="longest_first",
                value=key,
            )
        yield number


class _MeasuredSeconds:
    """The seconds that a job took for the same items: by their URIs, else by the last part of these, else its mean."""

    def __init__(self, store: Store, uri: str) -> None:
        spec = find_spec(store, uri.removeprefix(SCHEME))
        ledger = Ledger(store, spec.job)
        listing = ledger.listing()
        if not listing.counts.finished and listing.cancellation is None:
            # With what it records meanwhile, the same submit would make another job.
            raise CallerError.about("longest_first", uri, "a job that has ended", f"Wait: `tidemill wait {spec.job}`.")
        self._seconds: dict[str, float] = {}
        for outcome in ledger.outcomes():
            self._seconds[outcome.uri] = outcome.wall_seconds
        if not self._seconds:
            raise CallerError(f"longest_first is {uri!r}, and no item of that job has run.", what="longest_first")
        self._mean = fmean(self._seconds.values())
        self._by_name = {_last(uri): seconds for uri, seconds in self._seconds.items()}

    def __call__(self, source: ItemSource, block: Block) -> Iterable[float]:
        seconds, names = self._seconds, self._by_name
        return [seconds[uri] if uri in seconds else names.get(_last(uri), self._mean) for uri in block.uris]


def _last(uri: str) -> str:
    return uri.rstrip("/").rpartition("/")[2]
