"""A job's limit of its cost, as its workers keep it: nobody else needs to watch.

Each attempt on a chunk writes down how long it has held its slots: at its end and, while it runs, at five, ten, twenty,
… minutes, so that of what is under way at least half is known once it has run for five minutes. Whoever has written
something decides by chance whether to add up what all have written: a limit takes about `LOOKS` such looks, however
many workers there are, and a chunk that is a large part of it is always followed by one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tidemill.job import CostLimit
from tidemill.layout import ChunkKey
from tidemill.ledger import Ledger, Round
from tidemill.ledger.spent import spent_seconds, write_spent

FIRST_SECONDS = 300.0
"""Of slots that a chunk has held when that is written down before its end; afterwards at twice as many, and so on."""
LOOKS = 64
"""How often all workers together look on the way to a limit: about so much of it (a 64th) is passed unseen."""


class Spending:
    """How long an attempt on a chunk holds its slots.

    Args:
        ledger: Of its job.
        place: The chunk.
        attempt: The attempt.
        clock: Seconds that only ever grow.
    """

    def __init__(
        self, ledger: Ledger, key: ChunkKey, attempt: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ledger, self._key, self._attempt, self._clock = ledger, key, attempt, clock
        self._slots, self._since, self._seconds = 0, clock(), 0.0
        self._written, self._write_at = 0.0, FIRST_SECONDS

    @property
    def seconds(self) -> float:
        """Seconds so far, all slots added up."""
        return self._seconds + self._slots * (self._clock() - self._since)

    def holds(self, slots: int) -> None:
        """From now on it holds so many slots."""
        self._seconds, self._slots, self._since = self.seconds, slots, self._clock()

    def write(self, *, ends: bool = False) -> float:
        """Write down what there is, when it is time; returns how many seconds of it were not written before."""
        seconds = self.seconds
        if seconds <= self._written or not (ends or seconds >= self._write_at):
            return 0.0
        write_spent(self._ledger.store, self._key, self._attempt, seconds)
        fresh, self._written, self._write_at = seconds - self._written, seconds, 2 * seconds
        return fresh


def ends_job(ledger: Ledger, limit: CostLimit, round_: Round, fresh: float) -> bool:
    """Look, by chance, whether a job has passed its limit; if so, leave the tombstone.

    Args:
        ledger: Of the job.
        limit: The job's.
        round_: The round that is worked on.
        fresh: Seconds that were written down just now.
    """
    if random.random() * limit.seconds >= LOOKS * fresh:
        return False
    seconds = spent_seconds(ledger.store, ledger.job, round_.round + 1)
    # What is finished is not called cancelled.
    if seconds < limit.seconds or ledger.counts().finished:
        return False
    ledger.cancel("worker", limit.reached(seconds), round_.round + 1, limit.max_usd)
    return True
