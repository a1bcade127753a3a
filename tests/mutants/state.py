"""State of items without one of its safeguards."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tidemill import tree
from tidemill.state import Saver, Snapshot, Snapshots, WatchedState, choose, restore, scan
from tidemill.state.append_only import AppendOnlyFiles
from tidemill.state.mark import Mark
from tidemill.state.scan import COMMIT, FileStamp
from tidemill.worker.items import item_state
from tidemill.worker.items.item_state import ItemState


def all_failures_count(patch: pytest.MonkeyPatch) -> None:
    """A failure counts against its snapshot whichever round it was in."""
    patch.setattr(item_state, "choose", lambda found: choose([replace(one, round=0) for one in found]))


def by_index(patch: pytest.MonkeyPatch) -> None:
    """Items of two jobs are paired by their place."""
    patch.setattr(item_state, "pair", lambda store, job, item: item.index)


def folders_stay(patch: pytest.MonkeyPatch) -> None:
    """A restore removes files, and leaves the folders that they were in."""

    def leave(folder: Path, sizes: dict[str, int]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        there = scan(folder)
        (folder / COMMIT).unlink(missing_ok=True)
        for path, seen in there.items():
            if sizes.get(path) != seen.size:
                (folder / path).unlink()

    patch.setattr(sys.modules[restore.__module__], "_leave", leave)


def grown_since_the_mark(patch: pytest.MonkeyPatch) -> None:
    """What was learnt of a file after the mark was made counts, too."""
    marked = AppendOnlyFiles.marked

    def always(self: AppendOnlyFiles, mark: FileStamp | None) -> None:
        self._after = None
        marked(self, mark)

    patch.setattr(AppendOnlyFiles, "marked", always)


def logs_void_marks(patch: pytest.MonkeyPatch) -> None:
    """Whatever is newer than the mark voids it, also a log."""
    for name in ("has", "only"):
        patch.setattr(AppendOnlyFiles, name, lambda self, path: False)


def longer_is_grown(patch: pytest.MonkeyPatch) -> None:
    """A file that has become longer has grown, whatever its first bytes are."""
    patch.setattr(AppendOnlyFiles, "_begins", lambda self, path, inode, size, wanted: True)


def mark_alone(patch: pytest.MonkeyPatch) -> None:
    """The mark stands for whatever is in the folder when a worker looks."""
    patch.setattr(Mark, "stands", lambda self, mark, there, *, rested: True)
    patch.setattr(Mark, "still", lambda self, mark: True)


def marks_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A restored program is not known to mark its checkpoints."""
    calm = ItemState._calm

    def forgetful(self: ItemState) -> tuple[WatchedState, float]:
        self._snapshots.marked = None
        return calm(self)

    patch.setattr(ItemState, "_calm", forgetful)


def mirror(patch: pytest.MonkeyPatch) -> None:
    """Objects of the last snapshot are overwritten, as by a tool that mirrors a folder."""
    patch.setattr(Saver, "_taken", lambda self: set())


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """An attempt steps over the snapshots of a later one."""

    def step_over(self: Snapshots, standing: Snapshot) -> None:
        self._last = standing.seq

    patch.setattr(Snapshots, "_settle", step_over)


def no_guard(patch: pytest.MonkeyPatch) -> None:
    """Attempts that save nothing are not counted."""
    patch.setattr(item_state, "without_progress", lambda newest_first, round_, run: [])


def reads_past_claims(patch: pytest.MonkeyPatch) -> None:
    """An attempt that prepares again steps over the claims of later ones."""
    prepare = ItemState.prepare

    def again(self: ItemState) -> None:
        self._snapshots._claimed = False
        prepare(self)

    patch.setattr(ItemState, "prepare", again)
    patch.setattr(Snapshots, "check", lambda self: None)


def restored_is_new(patch: pytest.MonkeyPatch) -> None:
    """What an attempt has restored counts as if it had sent it."""
    restored = Saver.restored

    def as_new(self: Saver, snapshot: Snapshot | None) -> bool:
        restored(self, snapshot)
        self._sent_at = dict.fromkeys(self._sent_at, time.time())
        return False

    patch.setattr(Saver, "restored", as_new)


def room_for_all(patch: pytest.MonkeyPatch) -> None:
    """What is there already needs room again."""
    patch.setattr(tree, "_fits", lambda file, folder: False)


def short_grace(patch: pytest.MonkeyPatch) -> None:
    """A notice gives a program ten seconds, however much is left."""
    patch.setattr(ItemState, "limits", lambda self, limits: limits)


def single_scan(patch: pytest.MonkeyPatch) -> None:
    """One look at a state folder decides, whoever is writing there."""
    patch.setattr(WatchedState, "_rests", lambda self, there, before: True)
