"""A state folder while its program runs: when it is consistent, and what in it never is."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tidemill.state.mark import Mark
from tidemill.state.scan import FileStamp, Scan, StateError, open_files, scan
from tidemill.state.settle_time import SETTLE_SECONDS, SettleTime

_SCAN_SHARE = 20
"""A look may take this part of the time."""


class WatchedState:
    """Looks at a folder again and again. Close it.

    Args:
        folder: The state folder.
        every: Seconds between two snapshots.
        max_gib: What the folder may hold.
        by_hand: Whether the program is known to mark its checkpoints.
    """

    def __init__(self, folder: Path, every: float, max_gib: float, *, by_hand: bool = False) -> None:
        self._folder, self._every, self._max_gib = folder, every, max_gib
        self._settle = SettleTime(every, time.monotonic())
        self.mark = Mark(folder)
        self.by_hand = by_hand
        """True if only the program's mark says when its state is consistent."""
        self.has_marked = False
        """True once a mark was there."""
        self.asked: FileStamp | None = None
        """The program's mark, if it stands for what the last look saw."""
        self._marked: tuple[FileStamp | None, Scan | None] = None, None
        """The mark and the files that do not only grow, at the last look that found them changed, and when that was."""
        self._marked_at = 0.0
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

    def close(self) -> None:
        self.mark.close()

    def taken(self) -> None:
        """A snapshot holds what the last look saw. What the program has marked since then is another state."""
        if self.asked is not None:
            self.mark.remove(self.asked)

    def whole(self, there: Scan, *, by_itself: bool, succeeded: bool) -> bool:
        """True if the folder of a program that has ended is consistent.

        Args:
            there: The folder.
            by_itself: The program was not killed.
            succeeded: Its exit code was 0.
        """
        self.asked = None
        if by_itself and succeeded:
            return True
        mark = self.mark.seen()
        if mark is not None:
            self.has_marked = True
            return self.mark.stands(mark, there, rested=by_itself)
        return there == self.quiet or (by_itself and not self.by_hand)

    def growing(self) -> set[str]:
        """Files that only grow: they are saved as far as they have come."""
        return {path for path in self._now or () if self.mark.grown.has(path)}

    def still(self) -> bool:
        """True if the mark is still the program's last change in the folder, or if there is none."""
        return self.asked is None or self.mark.still(self.asked)

    def scan(self) -> Scan:
        """The folder's files now.

        Raises:
            StateError: No snapshot can hold them.
        """
        there = scan(self._folder)
        size, limit = sum(file.size for file in there.values()), self._max_gib * 2**30
        if size > limit:
            raise StateError(
                f"the state folder holds {size / 2**30:.1f} GiB, and its limit is {self._max_gib:g} GiB (max_gib)"
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
        mark = self.mark.seen()
        there = self._scanned()
        if due and self._settle.seconds < _SCAN_SHARE * self._cost and self._before != there:
            # The folder is large: looks are further apart than it has to rest.
            wait(self._settle.seconds)
            there = self._scanned()
        now = time.monotonic()
        self.asked = mark if mark is not None and self._stands(mark, there, now) else None
        if mark is not None:
            self.by_hand = self.has_marked = True
        self.mark.grown.learn(there, self.mark.seen)
        if not self.by_hand and self._rests(there, self._before):
            self.quiet = there
            if not due:
                self._settle.rested(now)
        elif due:
            self._settle.restless(now)
        self._cost += time.monotonic() - now
        return there

    def _stands(self, mark: FileStamp, there: Scan, now: float) -> bool:
        rest = {path: stamp for path, stamp in there.items() if not self.mark.grown.has(path)}
        if self._marked != (mark, rest):
            self._marked, self._marked_at = (mark, rest), now
        rests = now - self._marked_at
        # Some programs keep a file open all the time.
        rested = rests >= SETTLE_SECONDS and (rests >= 5 * SETTLE_SECONDS or not open_files(self._folder))
        return self.mark.stands(mark, there, rested=rested)

    def _scanned(self) -> Scan:
        began = time.monotonic()
        self._before, self._now = self._now, self.scan()
        self._cost += time.monotonic() - began
        return self._now

    def _rests(self, there: Scan, before: Scan | None) -> bool:
        """True if the folder is quiet: as it was a moment ago, with no file open for writing."""
        return there == before and (there == self.quiet or not open_files(self._folder))

    def restless(self) -> set[str]:
        """Files that change or are open all the time, such as a log. The others are as they were at the last look."""
        if self._now is None or self._before is None:
            return set()
        changed = {path for path in self._now if self._before.get(path) != self._now[path]}
        return changed | (open_files(self._folder) & self._now.keys())
