"""The state of one item while it runs here: claimed, restored, watched, saved.

A thread looks at the folder while the program runs. It saves when the folder is *quiet* (two equal scans and no file
open for writing), or when the program has created `.commit` and written nothing since, and asks now and then whether a
later attempt has begun. What it finds wrong it says by raising the item's own flag, which ends the program.
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

from tidemill.errors import DamagedError, StoreError, shown
from tidemill.job import Item, StateSettings
from tidemill.state import (
    NO_PROGRESS,
    Saver,
    Scan,
    Snapshot,
    Snapshots,
    StateError,
    SupersededError,
    WatchedState,
    choose,
    mapped_files,
    restore,
    scan,
    without_progress,
)
from tidemill.state.choose import no_progress_words
from tidemill.state.pair import pair
from tidemill.state.save import ChangedError
from tidemill.store import Store
from tidemill.worker.machine.stop import JobStop, Stop, StopReason
from tidemill.worker.output import log
from tidemill.worker.programs.faults import ItemError, item_step
from tidemill.worker.programs.supervisor import Limits

CHECK_SECONDS = 60.0
"""Seconds between two questions whether a later attempt has begun."""
SLEPT_SECONDS = 5.0
"""A pause this long between two looks means that this process was stopped: another attempt may have begun."""
FAST_SECONDS = 60.0
"""A program that fails sooner after a restore than this may not be able to read the snapshot."""
SPARE_SECONDS = 10.0
"""Seconds of a notice that remain for the commit and for giving the chunk back."""
REREADS = 5
"""How often the state of a job that runs is read."""
PATIENCE = 5
"""Intervals after which files that are written all the time no longer hold a snapshot up."""


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
        like: The item, to find it in another job whose state it is to begin with.
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
        like: Item | None = None,
    ) -> None:
        self._settings, self.folder, self._room, self._labels = settings, folder, room, labels
        job, item, self._attempt, self._round, self._run = place
        self._like = like or Item(item, "")
        self._snapshots = Snapshots(store, job, item)
        self._saver = Saver(self._snapshots, folder)
        self._outer, self.stop = stop, JobStop(stop)
        self._error: BaseException | None = None
        self._refused: StoreError | None = None
        self._restored: Snapshot | None = None
        self._began, self._claimed, self._unsaved = 0.0, False, False
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._watched, self._due = self._calm()
        self._asked: tuple[float, float] = (0.0, 0.0)

    # ---- before the program -------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Claim the item and bring its newest state into the folder.

        Raises:
            ItemError: It gets nowhere, or its state cannot be restored.
            SupersededError: A later attempt has begun.
        """
        with item_step("state", "the state cannot be restored", self._snapshots.store):
            recent = self._snapshots.recent()
            if not self._claimed:
                self._guard(recent)
                claim = self._snapshots.claim(self._attempt, self._round, self._run, next(iter(recent), None))
                recent, self._claimed = [claim, *recent], True
            else:
                # The newest snapshot may be a later attempt's, from which this one must not go on.
                self._snapshots.check()
            began = time.monotonic()
            own = choose(recent)
            try:
                restored = self._restore(own) if own else self._restore_another_jobs()
            except (DamagedError, StateError) as error:
                raise ItemError("state", str(error), final=True) from None
            # Objects of another job may go or change: the first snapshot sends all files.
            self._restored = restored if own else None
            self._unsaved = self._saver.restored(self._restored)
        if restored:
            seconds, size = round(time.monotonic() - began, 3), restored.tree.size
            where: dict[str, Any] = {} if own else {"from_job": self._settings.from_job}
            log("state restored", **self._labels, **where, snapshot=restored.origin, bytes=size, seconds=seconds)

    def _restore(self, candidates: list[Snapshot]) -> Snapshot | None:
        return restore(
            self._snapshots.store,
            candidates,
            self.folder,
            stop=lambda: self.stop.raised,
            room=self._room,
            note=lambda text: log(text, "warning", **self._labels),
        )

    def _restore_another_jobs(self) -> Snapshot | None:
        """Begin with the state of another job. One that runs overwrites its snapshots: then the newest one is read
        again, and what is here of it already stays."""
        for _ in range(REREADS):
            candidates = self._of_another_job()
            try:
                return self._restore(candidates)
            except DamagedError:
                if self._of_another_job()[:1] == candidates[:1]:
                    raise
        raise ItemError("state", f"{self._settings.from_job} saves its state more often than it can be read here")

    def _of_another_job(self) -> list[Snapshot]:
        """Snapshots of the job whose state the item begins with, if it is to begin with one."""
        job, item = self._settings.from_job, self._settings.from_item
        if job is None:
            return []
        if item is None:
            item = pair(self._snapshots.store, job, self._like)
        if item is None:
            raise ItemError("state", f"{shown(self._like.uri)} is not one of the items of {job}", final=True)
        # Programs of that job have failed for reasons of their own.
        recent = Snapshots(self._snapshots.store, job, item).recent()
        snapshots = choose(one for one in recent if one.kind != "failure")
        if not snapshots:
            raise ItemError("state", f"item {item} of {job} has no state to begin with", final=True)
        return snapshots

    def _guard(self, recent: list[Snapshot]) -> None:
        claims = without_progress(recent, self._round, self._run)
        if len(claims) >= NO_PROGRESS:
            raise ItemError("no-progress", no_progress_words(claims, datetime.now(UTC)), final=True)

    def limits(self, limits: Limits) -> Limits:
        """The program's limits: a notice gives it as long as saving its state leaves."""
        signals = {"TERM": signal.SIGTERM, "USR1": signal.SIGUSR1, "none": None}
        return replace(limits, stop_signal=signals[self._settings.notice_signal], left=self._left)

    # ---- while it runs ------------------------------------------------------------------------------------------

    def _calm(self) -> tuple[WatchedState, float]:
        """The folder before anybody has looked at it, and when its first snapshot is due."""
        every = self._settings.snapshot_seconds
        by_hand = self._snapshots.marked is not None
        watched = WatchedState(self.folder, every, self._settings.max_gib, by_hand=by_hand)
        return watched, time.monotonic() + every

    def begin(self) -> None:
        self._began = time.monotonic()
        self._watched.close()
        self._watched, self._due = self._calm()
        if self._unsaved:
            self._due = self._began
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
        looked = checked = time.monotonic()
        watched, warned, told = self._watched, False, False
        while not self._ended.wait(pause := watched.pause):
            now = time.monotonic()
            if now - looked > pause + SLEPT_SECONDS or now - checked > CHECK_SECONDS:
                # A store that does not answer now may answer later; meanwhile the program goes on.
                with suppress(StoreError):
                    self._snapshots.check()
                checked = now
            looked = now
            if self._outer.at_risk and not warned:
                warned, self._due = True, now
            hurry = self._outer.raised and self._settings.notice_signal != "TERM"
            there = watched.look(due=(due := now >= self._due or hurry), wait=self._ended.wait)
            if due or watched.asked:
                self._saver.mapped(mapped_files(self.folder))
            patient = now <= self._due + PATIENCE * self._settings.snapshot_seconds
            _note_marks(watched, self._snapshots, self._round, patient=patient)
            if watched.asked:
                if self._save(there, watched.growing()):
                    watched.taken()
            elif watched.by_hand:
                if due and not self._saver.differs(there, hurry=True):
                    # It is what the last snapshot holds, but may be about to expire.
                    self._save(there)
                elif not patient and not told and (newer := watched.mark.newer) is not None:
                    told = True
                    log(
                        f"nothing is saved: {shown(newer)} has changed since .commit was made",
                        "warning",
                        **self._labels,
                    )
            elif due and watched.quiet == there:
                self._save(there)
            elif due and not patient and (loose := watched.restless()):
                self._save(there, loose)

    def _save(self, there: Scan, loose: Collection[str] = ()) -> bool:
        """Save the folder as it was scanned; returns whether a snapshot holds it."""
        hurry, self._refused = self._outer.raised or self._ended.is_set(), None
        if self._saver.differs(there, hurry=hurry):
            try:
                saved = self._saver.save(there, self._aborted, loose, hurry=hurry, watched=self._watched)
            except (ChangedError, InterruptedError):
                return False
            except StoreError as error:
                log(f"the state was not saved: {error}", "warning", **self._labels)
                self._refused = error
                return False
            fields: dict[str, Any] = {"snapshot": saved.seq, "bytes": saved.bytes, "seconds": saved.seconds}
            log("state saved", **self._labels, **fields, files=len(saved.tree.files), open=list(saved.open))
        self._due = time.monotonic() + self._settings.snapshot_seconds
        return True

    def _aborted(self) -> bool:
        """True if a save that is under way would only hold up the last one."""
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

        What a program that was killed has left may be torn. It is saved if its mark stands, or if it is as it was when
        the folder was quiet last. What a program left that failed is not saved: the next attempt begins with what was
        saved before.

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
            there = self._watched.scan()
            whole = self._watched.whole(there, by_itself=by_itself, succeeded=succeeded)
            _note_marks(self._watched, self._snapshots, self._round, patient=True)
            saved = whole and self._save(there)
        except StateError as error:
            raise ItemError("state", str(error), final=True) from None
        if succeeded and not saved:
            with item_step("state", "the state was not saved after the program had ended", self._snapshots.store):
                raise self._refused or RuntimeError("it still changes")

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
        self._watched.close()
        self._saver.close()


def _note_marks(watched: WatchedState, snapshots: Snapshots, round_: int, *, patient: bool) -> None:
    """Note that the program marks its checkpoints. A program of another round may have other code."""
    if watched.has_marked:
        snapshots.marked = round_
    elif not patient and snapshots.marked != round_:
        watched.by_hand = False
