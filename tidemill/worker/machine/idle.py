"""Decides if a worker that serves a queue stays or leaves, and if it may still lease. Pure, on a clock that is given:
the simulation of a fleet runs this very code.

Only the worker itself decides that its machine goes, because only it knows that it is idle. An empty pull is
not idleness: Pub/Sub may answer with less than there is
(https://cloud.google.com/pubsub/docs/reference/rest/v1/projects.subscriptions/pull), and the queue's metric is minutes
old, so a machine that left at once would be created again at once.
"""

from __future__ import annotations

from collections.abc import Callable

EMPTY_PULLS = 3
"""Empty pulls in a row, in addition to the time, before a worker leaves."""
DRAIN_SECONDS = 60.0
"""Seconds that a worker needs at its machine's end to write what is done and to return the rest."""


class IdlePolicy:
    """Tracks a worker's own idleness, and its machine's end.

    Ask `leave` only while no pull is under way: a message that is on its way here is work.

    Args:
        idle_seconds: How long it stays without work; more than 0, for 0 would mean "at once" to one reader and
            "never" to another.
        clock: Seconds, always forward (`time.monotonic`).
        machine_until: When the machine's age ends, on that clock; None when it has no limit.
        machine_since: When its life began, on that clock: before this worker's, where that was started again.
        drain_seconds: What is needed before that for an orderly end.

    Raises:
        ValueError: `idle_seconds` is not more than 0.
    """

    __slots__ = ("_clock", "_empty", "_half", "_idle_seconds", "_last_lease", "_since")

    def __init__(
        self,
        idle_seconds: float,
        clock: Callable[[], float],
        machine_until: float | None = None,
        machine_since: float | None = None,
        *,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        if not idle_seconds > 0:
            raise ValueError(f"idle_seconds is {idle_seconds}: expected more than 0")
        self._idle_seconds, self._clock = idle_seconds, clock
        self._since = clock()
        self._last_lease = None if machine_until is None else machine_until - drain_seconds
        began = self._since if machine_since is None else min(machine_since, self._since)
        self._half = 0.0 if self._last_lease is None else max(0.0, self._last_lease - began) / 2
        self._empty = 0

    def pulled(self, empty: bool) -> None:
        """A pull was answered. Failed pulls say nothing about the queue and are not reported here."""
        if empty:
            self._empty += 1
        else:
            self.busy()

    def busy(self) -> None:
        """There is work, or the last of it has just ended: idleness starts again."""
        self._since, self._empty = self._clock(), 0

    def leave(self) -> bool:
        """True if the worker has been idle long enough to leave."""
        return self._empty >= EMPTY_PULLS and self._clock() - self._since >= self._idle_seconds

    def may_lease(self, longest_item_seconds: float = 0.0) -> bool:
        """True if an item that starts now ends before the machine does.

        One that may take longer than half a machine's life is taken in the first half of it: otherwise each new
        machine would refuse it.

        Args:
            longest_item_seconds: How long one may take.
        """
        if self._last_lease is None:
            return True
        return self._clock() + min(longest_item_seconds, self._half) <= self._last_lease
