"""A loopback S3 that fails, by a seed, in every way that a worker must survive.

It records what no real store reports: every write, whether a committed object was ever replaced, and how often it
failed.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable

from tests.loopback_s3 import LoopbackS3

NAME = "store"
BEFORE = ("500", "503", "drop", "hang-drop")
AFTER = ("500-after", "drop-after", "hang", "hang-drop-after")
FAULTS = {"PUT": (*BEFORE, *AFTER), "GET": (*BEFORE, "hang"), "HEAD": (*BEFORE, "hang")}
KINDS = ("409", "500", "500-after", "drop", "drop-after", "hang", "hang-drop-after")
"""Failures of conditional creates, which write every record. The first creates meet one each, for every seed."""
ONCE = re.compile(r"/done/|/rounds/|/job\.json$")
"""Objects that never change once they exist."""


class Bucket(LoopbackS3):
    """The store of a chaos run.

    Args:
        seed: Decides which request fails how.
        rate: Share of requests that fail; conditional creates get 409 four times as often.
        hang_seconds: The longest hang.
    """

    def __init__(self, seed: int, rate: float, hang_seconds: float = 2.0) -> None:
        super().__init__(NAME)
        self.seed, self.rate, self.hang_seconds = seed, rate, hang_seconds
        self.writes: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.replaced: list[str] = []
        """Objects of `ONCE` that were written again with other contents."""
        self.requests = 0
        self.on_write: Callable[[str], None] = lambda key: None
        self.outage_until = 0.0
        self._asked: Counter[tuple[str, str]] = Counter()
        self.owed: list[str] = list(KINDS)
        """Failures that the next creates of records meet, one each."""

    def fault(self, method: str, key: str, conditional: bool) -> str | None:
        """How this request fails, or None."""
        if time.monotonic() < self.outage_until:
            return "503"
        with self.lock:
            self.requests += 1
            self._asked[method, key] += 1
            dice = random.Random(f"{self.seed} {method} {key} {self._asked[method, key]}")
            fault = None
            if self.owed and conditional and "/done/" in key and self._asked[method, key] == 1:
                fault = self.owed.pop(0)
            elif dice.random() < self.rate:
                fault = dice.choice(FAULTS[method])
            # A writer gives up after four in a row, which no store has answered.
            elif conditional and self._asked[method, key] % 4 and dice.random() < 4 * self.rate:
                fault = "409"
            self.failures[fault or "none"] += 1
            return fault

    def write(self, key: str, body: bytes, conditional: bool) -> bool:
        """Write an object. Returns whether it was written."""
        before = self.objects.get(key, body)
        written = super().write(key, body, conditional)
        if written:
            with self.lock:
                self.writes[key] += 1
                if ONCE.search(key) and before != body:
                    self.replaced.append(key)
            self.on_write(key)
        return written
