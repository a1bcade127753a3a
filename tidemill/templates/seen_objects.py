"""Objects that earlier sends have taken, as hashes of name and tag: an event may be delivered again for two weeks."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from struct import Struct

from tidemill.errors import decoding

DAYS = 14
"""The longest that the queues of both clouds keep a message, and so deliver it again."""
MOST = 4_000_000
"""Objects that are known, 8 bytes each; of more the oldest days are forgotten."""
_DAY = Struct("<II")
_SECONDS = 86_400


class SeenObjects:
    """Hashes of objects by the day on which they were taken, each day's in order.

    Args:
        data: What `encode` returned.
    """

    def __init__(self, data: bytes = b"") -> None:
        self._days: dict[int, array[int]] = {}
        at = 0
        with decoding("the list of objects that were sent"):
            while at < len(data):
                day, count = _DAY.unpack_from(data, at)
                at += _DAY.size
                self._days[day] = _in_order(data[at : at + 8 * count])
                at += 8 * count

    def __contains__(self, key: int) -> bool:
        for keys in self._days.values():
            at = bisect_left(keys, key)
            if at < len(keys) and keys[at] == key:
                return True
        return False

    def add(self, keys: set[int], now: float) -> None:
        """Note objects that are taken now, and forget those that no queue tells of any more."""
        today = int(now // _SECONDS)
        merged = array("Q", sorted({*self._days.pop(today, ()), *keys}))
        kept = {day: each for day, each in self._days.items() if day >= today - DAYS}
        room = MOST - len(merged)
        for day in sorted(kept, reverse=True):
            room -= len(kept[day])
            if room < 0:
                del kept[day]
        self._days = {**kept, today: merged}

    def encode(self) -> bytes:
        parts = [_DAY.pack(day, len(keys)) + _ordered(keys).tobytes() for day, keys in sorted(self._days.items())]
        return b"".join(parts)


def _in_order(data: bytes) -> array[int]:
    keys = array("Q")
    keys.frombytes(data)
    return _ordered(keys)


def _ordered(keys: array[int]) -> array[int]:
    """Numbers of this machine in little endian, or back."""
    if sys.byteorder == "big":
        keys = array("Q", keys)
        keys.byteswap()
    return keys
