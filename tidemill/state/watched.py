"""A state folder while its program runs: when it is consistent, and what in it never is."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tidemill.state.scan import COMMIT, Scan, Seen, StateError, open_files, scan, seen
from tidemill.state.settle import Settle

_SCAN_SHARE = 20
"""A look may take this part of the time."""


class WatchedState:
    """Looks at a folder again and again.

    Args:
        folder: The state folder.
        every: Seconds between two snapshots.
        max_gib: What the folder may hold.
    """

    def __init__(self, folder: Path, every: float, max_gib: float) -> None:
        self._folder, self._every, self._max_gib = folder, every, max_gib
        self._settle = Settle(every, time.monotonic())
        self.by_hand = False
        """Whether the program says itself when its state is consistent."""
        self.asked: Seen | None = None
        """The program's mark, as it was before the last look."""
        self.quiet: Scan | None = None
        """The last scan of a quiet folder."""
        self._now: Scan | None = None
        self._before: Scan | None = None
        self._cost = 0.0
        """Seconds that the last look took."""

    @property
    def pause(self) -> float:
        """Seconds until the next look: a snapshot's interval at most, for a machine may have stood still in a look."""
        return max(self._settle.seconds, min(_SCAN_SHARE * self._cost, self._every))

    @property
    def asks(self) -> bool:
        """Whether the program says that its state is consistent now."""
        return self._mark() is not None

    def _mark(self) -> Seen | None:
        try:
            return seen((self._folder / COMMIT).stat())
        except OSError:
            return None

    def taken(self) -> None:
        """A snapshot holds what the last look saw. What the program has marked since then is another state."""
        if self._mark() == self.asked:
            (self._folder / COMMIT).unlink(missing_ok=True)

    def scan(self) -> Scan:
        """What is in the folder now.

        Raises:
            StateError: No snapshot can hold that.
        """
        there = scan(self._folder)
        size, limit = sum(file.size for file in there.values()), self._max_gib * 2**30
        if size > limit:
            raise StateError(
                f"the state folder holds {size / 2**30:.1f} GiB, and its limit is {self._max_gib:g} GiB (--state-gib)"
            )
        return there

    def look(self, *, due: bool, wait: Callable[[float], object] = time.sleep) -> Scan:
        """Scan the folder, and see whether it is quiet.

        Args:
            due: Whether a snapshot waits for that.
            wait: Waits for some seconds.

        Raises:
            StateError: No snapshot can hold what is there.
        """
        self._cost = 0.0
        # First the mark: a scan that comes before it may not have seen all that it stands for.
        self.asked = self._mark()
        there = self._scanned()
        if due and self._settle.seconds < _SCAN_SHARE * self._cost and self._before != there:
            # The folder is large: looks are further apart than it has to rest.
            wait(self._settle.seconds)
            there = self._scanned()
        self.by_hand = self.by_hand or self.asked is not None
        now = time.monotonic()
        if not self.by_hand and self._rests(there, self._before):
            self.quiet = there
            if not due:
                self._settle.rested(now)
        elif due:
            self._settle.restless(now)
        self._cost += time.monotonic() - now
        return there

    def _scanned(self) -> Scan:
        began = time.monotonic()
        self._before, self._now = self._now, self.scan()
        self._cost += time.monotonic() - began
        return self._now

    def _rests(self, there: Scan, before: Scan | None) -> bool:
        """Whether the folder is quiet: as it was a moment ago, with no file open for writing."""
        return there == before and (there == self.quiet or not open_files(self._folder))

    def restless(self) -> set[str]:
        """Files that change or are open all the time, such as a log. The others are as they were at the last look."""
        if self._now is None or self._before is None:
            return set()
        changed = {path for path in self._now if self._before.get(path) != self._now[path]}
        return changed | (open_files(self._folder) & self._now.keys())
