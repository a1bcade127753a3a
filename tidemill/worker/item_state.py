"""The state of one item while it runs here: claimed, restored, watched, saved.

A thread looks at the folder while the program runs. It saves when the folder is *quiet* (two equal scans and no file
open for writing, or the program has created `.commit`), and asks now and then whether a later attempt has begun. What
it finds wrong it says by raising the item's own flag, which ends the program.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidemill.errors import DamagedError, StoreError
from tidemill.job import StateSettings
from tidemill.state import (
    COMMIT,
    NO_PROGRESS,
    Saver,
    Scan,
    Snapshot,
    Snapshots,
    StateError,
    SupersededError,
    choose,
    open_files,
    restore,
    scan,
    without_progress,
)
from tidemill.state.choose import no_progress_words
from tidemill.state.save import ChangedError
from tidemill.store import Store
from tidemill.worker.faults import ItemError, item_step
from tidemill.worker.output import log
from tidemill.worker.stop import JobStop, Stop, StopReason
from tidemill.worker.supervisor import Limits

SETTLE_SECONDS = 2.0
"""Seconds between two scans that must be equal."""
CHECK_SECONDS = 60.0
"""Seconds between two questions whether a later attempt has begun."""
SLEPT_SECONDS = 5.0
"""A pause this long between two looks means that this process was stopped: another attempt may have begun."""
FAST_SECONDS = 60.0
"""A program that fails sooner after a restore than this may not be able to read the snapshot."""
SPARE_SECONDS = 10.0
"""What is left of a notice for the commit and for giving the chunk back."""
PATIENCE = 5
"""Intervals after which files that are written all the time no longer hold a snapshot up."""
_SCAN_SHARE = 20
"""A scan may take this part of the time."""


class ItemState:
    """The state of one item in one attempt on its chunk.

    Args:
        store: The job store.
        settings: What the job says of state.
        place: Job, item, attempt, round and run (see `Snapshots`).
        folder: The state folder.
        room: How many bytes may be brought here.
        stop: Ends the item; `ItemState.stop` ends its program too.
        labels: Of log lines.
    """

    def __init__(
        self,
        store: Store,
        settings: StateSettings,
        place: tuple[str, int, str, int, str],
        folder: Path,
        *,
        room: Callable[[], int],
        stop: Stop,
        labels: dict[str, Any],
    ) -> None:
        self._settings, self.folder, self._room, self._labels = settings, folder, room, labels
        job, item, self._attempt, self._round, self._run = place
        self._snapshots = Snapshots(store, job, item)
        self._saver = Saver(self._snapshots, folder)
        self._outer, self.stop = stop, JobStop(stop)
        self._error: BaseException | None = None
        self._restored: Snapshot | None = None
        self._began = 0.0
        self._claimed = False
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._quiet: Scan | None = None
        """The last scan of a quiet folder."""
        self._by_hand = False
        """Whether the program says itself when its state is consistent."""
        self._asked: tuple[float, float] = (0.0, 0.0)

    # ---- before the program -------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Claim the item and bring its newest state into the folder.

        Raises:
            ItemError: It gets nowhere, or its state cannot be restored.
            SupersededError: A later attempt has begun.
        """
        with item_step("state", "the state cannot be restored"):
            recent = self._snapshots.recent()
            if not self._claimed:
                self._guard(recent)
                claim = self._snapshots.claim(self._attempt, self._round, self._run, next(iter(recent), None))
                recent, self._claimed = [claim, *recent], True
            began = time.monotonic()
            own = choose(recent)
            first = [] if own else self._of_another_job()
            try:
                restored = restore(
                    self._snapshots.store,
                    own or first,
                    self.folder,
                    kept=self._saver.kept,
                    stop=lambda: self.stop.raised,
                    room=self._room(),
                    note=lambda text: log(text, "warning", **self._labels),
                )
            except (DamagedError, StateError) as error:
                raise ItemError("state", str(error), final=True) from None
            # Objects of another job may go or change: the first snapshot sends all files.
            self._restored = restored if own else None
            self._saver.restored(self._restored)
        if restored:
            seconds, size = round(time.monotonic() - began, 3), restored.tree.size
            where: dict[str, Any] = {} if own else {"from_job": self._settings.from_job}
            log("state restored", **self._labels, **where, snapshot=restored.origin, bytes=size, seconds=seconds)

    def _of_another_job(self) -> list[Snapshot]:
        """Snapshots of the job whose state the item begins with, if it is to begin with one."""
        job, item = self._settings.from_job, self._settings.from_item
        if job is None:
            return []
        item = self._snapshots.item if item is None else item
        found = choose(Snapshots(self._snapshots.store, job, item).recent())
        if not found:
            raise ItemError("state", f"item {item} of {job} has no state to begin with", final=True)
        return found

    def _guard(self, recent: list[Snapshot]) -> None:
        claims = without_progress(recent, self._round, self._run)
        if len(claims) >= NO_PROGRESS:
            raise ItemError("no-progress", no_progress_words(claims, datetime.now(UTC)), final=True)

    def limits(self, limits: Limits) -> Limits:
        """The program's limits: a notice gives it as long as saving its state leaves."""
        signals = {"TERM": signal.SIGTERM, "USR1": signal.SIGUSR1, "none": None}
        return replace(limits, stop_signal=signals[self._settings.notice_signal], left=self._left)

    # ---- while it runs ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._began, self._quiet, self._by_hand = time.monotonic(), None, False
        self._ended.clear()
        self._thread = threading.Thread(target=self._follow, name="state", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:
            self._watch()
        except (SupersededError, StateError) as error:
            self._give_up(error)
        except Exception as error:  # a thread that dies silently would save nothing any more
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        self._error = error
        log(f"the program is ended: {error}", "warning", **self._labels)
        self.stop.set(StopReason.SUPERSEDED if isinstance(error, SupersededError) else StopReason.BROKEN)

    def _watch(self) -> None:
        every = self._settings.snapshot_seconds
        settle = min(SETTLE_SECONDS, every / 4)
        due = looked = checked = time.monotonic()
        due += every
        before: Scan | None = None
        pause = settle
        while not self._ended.wait(pause):
            now = time.monotonic()
            if now - looked > pause + SLEPT_SECONDS or now - checked > CHECK_SECONDS:
                # A store that does not answer now may answer later; meanwhile the program goes on.
                with suppress(StoreError):
                    self._snapshots.check()
                checked = now
            looked, there = now, self._scan()
            cost = time.monotonic() - now
            by_hand = (self.folder / COMMIT).exists()
            self._by_hand = self._by_hand or by_hand
            if by_hand:
                if self._save(there):
                    (self.folder / COMMIT).unlink(missing_ok=True)
                    due = time.monotonic() + every
            elif not self._by_hand:
                if self._rests(there, before):
                    self._quiet = there
                hurry = self._outer.raised and self._settings.notice_signal != "TERM"
                if now >= due or hurry:
                    loose: Collection[str] = ()
                    if self._quiet != there and before is not None and now > due + PATIENCE * every:
                        loose = self._restless(before, there)
                    if (self._quiet == there or loose) and self._save(there, loose):
                        due = time.monotonic() + every
            before = there
            pause = max(settle, _SCAN_SHARE * cost)

    def _rests(self, there: Scan, before: Scan | None) -> bool:
        """Whether the folder is quiet: as it was a moment ago, with no file open for writing."""
        return there == before and (there == self._quiet or not open_files(self.folder))

    def _restless(self, before: Scan, there: Scan) -> set[str]:
        """Files that change or are open all the time, such as a log. The others must be as they were."""
        return {path for path in there if before.get(path) != there[path]} | (open_files(self.folder) & there.keys())

    def _scan(self) -> Scan:
        there = scan(self.folder)
        size, limit = sum(seen.size for seen in there.values()), self._settings.max_gib * 2**30
        if size > limit:
            raise StateError(
                f"the state folder holds {size / 2**30:.1f} GiB, and its limit is {self._settings.max_gib:g} GiB "
                "(--state-gib)"
            )
        return there

    def _save(self, there: Scan, loose: Collection[str] = ()) -> bool:
        """Save the folder as it was scanned; returns whether a snapshot holds it."""
        if not self._saver.differs(there):
            return True
        try:
            saved = self._saver.save(there, self._aborted, loose)
        except (ChangedError, InterruptedError):
            return False
        except StoreError as error:
            log(f"the state was not saved: {error}", "warning", **self._labels)
            return False
        said: dict[str, Any] = {"snapshot": saved.seq, "bytes": saved.bytes, "seconds": saved.seconds}
        log("state saved", **self._labels, **said, files=len(saved.tree.files), open=list(saved.open))
        return True

    def _aborted(self) -> bool:
        """Whether a save that is under way would only hold up the last one."""
        return self._ended.is_set() and self._thread is threading.current_thread()

    # ---- the end ------------------------------------------------------------------------------------------------

    def _left(self) -> float:
        """Seconds that the program may still take after a notice, so that its state can be saved."""
        if self._error is not None:
            return 0.0
        now = time.monotonic()
        asked, answer = self._asked
        if now - asked > 1.0:
            changed: float = 0.0
            with suppress(StateError):
                changed = self._saver.changed_bytes(scan(self.folder))
            needed = changed / self._saver.rate + SPARE_SECONDS
            self._asked = asked, answer = now, self._outer.ends_at - needed
        return max(0.0, answer - now)

    def end(self, *, by_itself: bool, succeeded: bool) -> None:
        """The program has ended: save what it left.

        What a program that was killed has left may be torn. It is saved if it is as it was when the folder was quiet
        last. What a program left that failed is not saved: the next attempt begins with what was saved before.

        Args:
            by_itself: Whether the program ended by itself: it was not killed.
            succeeded: Whether its exit code was 0.

        Raises:
            SupersededError: A later attempt has begun.
            ItemError: The state cannot be kept, or the store did not take that of a program that succeeded.
        """
        self.pause()
        self._raise()
        if not (succeeded or self._outer.raised):
            self._note_failure()
            return
        try:
            there = self._scan()
            by_hand = not self._by_hand or (self.folder / COMMIT).exists()
            whole = (by_itself and (succeeded or by_hand)) or there == self._quiet
            saved = whole and self._save(there)
        except StateError as error:
            raise ItemError("state", str(error), final=True) from None
        if succeeded and not saved:
            raise ItemError("state", "the state was not saved after the program had ended")

    def _raise(self) -> None:
        """Raise what the thread has found."""
        error, self._error = self._error, None
        if isinstance(error, StateError):
            raise ItemError("state", str(error), final=True)
        if error is not None:
            raise error

    def _note_failure(self) -> None:
        seconds = time.monotonic() - self._began
        if self._restored is not None and seconds < FAST_SECONDS:
            with suppress(StoreError):
                self._snapshots.failed(self._restored, seconds)

    def pause(self) -> None:
        """The program has ended: look at the folder no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        self.pause()
        self._saver.close()
