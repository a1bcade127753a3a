"""Bring a snapshot into a state folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tidemill.errors import DamagedError, StoreMissingError, shown
from tidemill.removal import remove
from tidemill.state.scan import StateError, folders_of, scan
from tidemill.state.snapshots import Snapshot
from tidemill.store import Store
from tidemill.tree import fetch_tree


def restore(
    store: Store,
    candidates: Sequence[Snapshot],
    folder: Path,
    *,
    stop: Callable[[], bool],
    room: Callable[[], int | None],
    note: Callable[[str], None],
) -> Snapshot | None:
    """Make a folder hold the first of some snapshots whose files verify; returns that one, None without any.

    Args:
        store: Where the snapshots are.
        candidates: In the order in which they are tried.
        folder: The state folder; whatever else is in it is removed.
        stop: True ends it with `InterruptedError`.
        room: Asked how many bytes may be fetched, once what is to go has gone.
        note: Told why a snapshot was passed over.

    Raises:
        DamagedError: None of them can be restored.
        StateError: Something in the folder cannot be removed.
    """
    problem: Exception | None = None
    for snapshot in candidates:
        try:
            _leave(folder, {file.path: file.size for file in snapshot.tree.files})
            fetch_tree(store, snapshot.tree, folder, stop=stop, room=room())
            return snapshot
        except (DamagedError, StoreMissingError) as error:
            problem = problem or error
            note(f"snapshot {snapshot.origin} cannot be restored: {error}")
    if problem is not None:
        raise DamagedError(f"None of the snapshots of the item can be restored: {problem}")
    _leave(folder, {})
    return None


def _leave(folder: Path, sizes: Mapping[str, int]) -> None:
    """Leave nothing in a folder but files of these paths and sizes, and the folders that they are in. A program may
    have left anything there, or in its place."""
    if folder.is_symlink() or not folder.is_dir():
        remove(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {path for path, seen in scan(folder, strict=False).items() if sizes.get(path) == seen.size}
    folders = folders_of(paths)
    for place in sorted(folders):
        with os.scandir(folder / place) as entries:
            for entry in list(entries):
                name = f"{place}/{entry.name}".lstrip("/")
                if name in paths or name in folders:
                    continue
                remove(Path(entry.path))
                if os.path.lexists(entry.path):
                    raise StateError(f"{shown(name)} in the state folder cannot be removed: it is another user's")
