"""Save a state folder: send the files that changed, then commit the list of all of them.

Names of objects are used again, so that garbage is bounded without a delete: an attempt overwrites its own objects that
neither of the last two snapshots lists. Objects expire by their age, so files whose objects are a week old are sent
again, whichever attempt sent them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from tidemill import layout
from tidemill.errors import FileChangedError, shown
from tidemill.state.hold import held
from tidemill.state.scan import FileStamp, Scan, StateError, scan, seen
from tidemill.state.snapshots import Snapshot, Snapshots
from tidemill.state.watched_state import WatchedState
from tidemill.store.ahead import in_order
from tidemill.tree import Tree, TreeFile, store_file

SIDE_BY_SIDE = 2
"""Files that are sent at the same time."""
FRESH_SECONDS = 7 * 86_400.0
"""Age from which an unchanged file is sent again."""
ASSUMED_RATE = 20 * 2**20
"""Bytes per second that are assumed until an upload was measured."""
_MEASURABLE = 2**20


class ChangedError(Exception):
    """A file changed while it was saved. Nothing was committed."""


class Saver:
    """Saves the state of one item for one attempt."""

    def __init__(self, snapshots: Snapshots, folder: Path) -> None:
        self._snapshots, self._folder = snapshots, folder
        self._known: dict[str, tuple[FileStamp, TreeFile]] = {}
        """By path: the file as it was when it was sent or restored, and its object."""
        self._sent_at: dict[str, float] = {}
        """By object: when it was written, in seconds since the epoch; what is not here may be about to expire."""
        self._mapped, self._mapped_now = set[str](), set[str]()
        """Files that have been mapped to be written since the last snapshot, and those that still are."""
        self._recent: list[Tree] = []
        """Files of our last two snapshots."""
        self._bytes, self._seconds = 0, 0.0
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="state")

    @property
    def rate(self) -> float:
        """Bytes per second of the uploads so far."""
        return self._bytes / self._seconds if self._bytes >= _MEASURABLE and self._seconds else ASSUMED_RATE

    def restored(self, snapshot: Snapshot | None) -> bool:
        """Note that the folder holds the files of a snapshot, as it is now. Returns whether any of them has to be sent:
        it is of another job, or would expire."""
        there = scan(self._folder)
        files = snapshot.tree.files if snapshot else ()
        self._known = {file.path: (there[file.path], file) for file in files if file.path in there}
        # The attempts that sent them, at most as many as there are files; each has few objects.
        folders = {file.object.rpartition("/")[0] for file in files}
        self._sent_at = {e.name: e.modified for folder in folders for e in self._snapshots.store.entries(folder)}
        self._mapped, self._mapped_now = set(), set()
        return self.differs(there)

    def mapped(self, paths: Collection[str]) -> None:
        """Note the files that are mapped to be written now: that changes them, but not always their times."""
        self._mapped, self._mapped_now = self._mapped | set(paths), set(paths)

    def changed(self, there: Scan, *, hurry: bool = False) -> set[str]:
        """Paths that have to be sent; in a hurry without those that only would expire."""
        old = 0.0 if hurry else time.time() - FRESH_SECONDS
        return {
            path
            for path, seen in there.items()
            if (saved := self._known.get(path)) is None
            or saved[0] != seen
            or path in self._mapped
            or self._sent_at.get(saved[1].object, 0.0) < old
        }

    def differs(self, there: Scan, *, hurry: bool = False) -> bool:
        """True if a folder differs from the last snapshot."""
        return there.keys() != self._known.keys() or bool(self.changed(there, hurry=hurry))

    def changed_bytes(self, there: Scan) -> int:
        """Bytes that have to be sent in a hurry."""
        return sum(there[path].size for path in self.changed(there, hurry=True))

    def save(
        self,
        there: Scan,
        stop: Callable[[], bool],
        loose: Collection[str] = (),
        *,
        hurry: bool = False,
        watched: WatchedState | None = None,
    ) -> Snapshot:
        """Send what changed and commit the folder as it was scanned.

        Args:
            there: The folder, when it was consistent.
            stop: True ends it between two files with `InterruptedError`.
            loose: Files that somebody writes all the time: they are taken as they are.
            hurry: Whether to leave files as they are in the store that only would expire.
            watched: Asked once the files are held whether the mark still stands, and told of links.

        Raises:
            ChangedError: The folder is not as it was scanned any more.
            SupersededError: A later attempt has begun.
            StoreError: The store did not take it.
        """
        began, at = time.monotonic(), time.time()
        wanted = sorted(self.changed(there, hurry=hurry))
        linked = watched.mark.linked if watched else lambda paths: None
        with held(self._folder, wanted, linked) as place:
            # From here on it does not matter what the program replaces or removes.
            now = scan(self._folder)
            if not _same(there, now, loose) or (watched and not watched.still()):
                raise ChangedError("the state changed before it was saved")
            there = {path: kept for path, kept in there.items() if path in now}
            sent = self._send(there, [path for path in wanted if path in now], place, stop, loose)
        self._measure(sent, time.monotonic() - began)
        files = {path: saved[1] for path, saved in self._known.items() if path in there} | {f.path: f for f in sent}
        tree = Tree(tuple(files.values()))
        fields = {"bytes": sum(file.size for file in sent), "seconds": round(time.monotonic() - began, 3)}
        # If its answer is lost, it may stand all the same: its objects are kept until two others stand.
        self._recent.append(tree)
        snapshot = self._snapshots.commit(tree, open=tuple(sorted(loose)), **fields)
        self._known = {path: (there[path], file) for path, file in files.items()}
        objects = {file.object for file in files.values()}
        self._sent_at = {o: then for o, then in self._sent_at.items() if o in objects} | {f.object: at for f in sent}
        self._mapped = self._mapped_now
        self._recent = self._recent[-2:]
        return snapshot

    def _send(
        self,
        there: Scan,
        wanted: Collection[str],
        place: Callable[[str], Path],
        stop: Callable[[], bool],
        loose: Collection[str],
    ) -> list[TreeFile]:
        """Send files from where they are held."""
        taken = self._taken()
        names = (name for k in count() if (name := self._name(k)) not in taken)

        def send(pair: tuple[str, str]) -> TreeFile:
            if stop():
                raise InterruptedError("stopped")
            path, name = pair
            source, settled = place(path), path not in loose
            try:
                file = store_file(self._snapshots.store, source, path, name, settled=settled)
                if settled and seen(source.stat()) != there[path]:
                    raise FileChangedError(f"{shown(path)} changed before it was sent")
                return file
            except (FileNotFoundError, FileChangedError, ValueError) as error:
                raise ChangedError(str(error)) from None
            except PermissionError as error:
                raise StateError(f"{shown(path)} in the state folder cannot be read: {error.strerror}") from None

        return list(in_order(self._pool, send, zip(wanted, names, strict=False)))

    def _taken(self) -> set[str]:
        """Objects that must not be overwritten."""
        return {file.object for tree in self._recent for file in tree.files}

    def _name(self, k: int) -> str:
        return layout.state_file(self._snapshots.job, self._snapshots.item, self._snapshots.attempt, k)

    def _measure(self, sent: Iterable[TreeFile], seconds: float) -> None:
        self._bytes += sum(file.size for file in sent)
        self._seconds += seconds

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def _same(there: Scan, now: Scan, loose: Collection[str]) -> bool:
    """True if a folder is as it was scanned, except for files that are written all the time."""
    if not loose:
        return there == now
    # Other new files may be those that a program writes before it renames them.
    return all(now.get(path) == seen for path, seen in there.items() if path not in loose)
