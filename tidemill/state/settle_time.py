"""How long a state folder must rest before it is saved. Pure."""

from __future__ import annotations

SETTLE_SECONDS = 2.0
"""Seconds between two scans that must be equal."""
LEAST_SECONDS = 0.1
"""The same, of a program that never rests for longer."""


class SettleTime:
    """Seconds that a folder must rest: two, or as many as the program leaves it.

    The files of one checkpoint may be closed shortly after one another, so a short rest may lie in the middle of a
    checkpoint. A program that writes checkpoints back to back never rests for two seconds, though, and would lose
    everything with its machine. So the time is halved, step by step, only for a folder that has not rested for a whole
    interval between two snapshots. The first time that succeeds is then about the longest rest of the program, which is
    more likely between checkpoints than within one. Rests that no snapshot waits for double it again.

    Args:
        every: Seconds between two snapshots.
        now: When the program starts, on the clock of `time.monotonic`.
    """

    def __init__(self, every: float, now: float) -> None:
        self._every, self._since = every, now
        self._longest = min(SETTLE_SECONDS, every / 4)
        self.seconds = self._longest

    def rested(self, now: float) -> None:
        """The folder was quiet for `seconds`, and no snapshot is due."""
        self.seconds, self._since = min(self._longest, 2 * self.seconds), now

    def restless(self, now: float) -> None:
        """A snapshot is due, and the folder was not quiet."""
        if now - self._since >= self._every:
            # A quarter of an interval with this time, before the next half is tried.
            self.seconds, self._since = max(LEAST_SECONDS, self.seconds / 2), now - 0.75 * self._every
