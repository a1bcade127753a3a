"""Bring a snapshot into a state folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tidemill.errors import DamagedError, StoreMissingError
from tidemill.state.scan import COMMIT, Scan, scan
from tidemill.state.snapshots import Snapshot
from tidemill.store import Store
from tidemill.tree import fetch_tree, sweep_parts


def restore(
    store: Store,
    candidates: Sequence[Snapshot],
    folder: Path,
    *,
    kept: Callable[[Snapshot, Scan], set[str]],
    stop: Callable[[], bool],
    room: int | None,
    note: Callable[[str], None],
) -> Snapshot | None:
    """Make a folder hold the first of some snapshots whose files verify; returns that one, None without any.

    Args:
        store: Where the snapshots are.
        candidates: In the order in which they are tried.
        folder: The state folder; other files in it are removed.
        kept: Says which files of the folder, as scanned, are those of a snapshot already.
        stop: True ends it with `InterruptedError`.
        room: Bytes that may be fetched.
        note: Told why a snapshot was passed over.

    Raises:
        DamagedError: None of them can be restored.
    """
    folder.mkdir(parents=True, exist_ok=True)
    problem: Exception | None = None
    for snapshot in candidates:
        try:
            there = scan(folder)
            _clear(folder, there.keys() - kept(snapshot, there))
            fetch_tree(store, snapshot.tree, folder, stop=stop, room=room)
            return snapshot
        except (DamagedError, StoreMissingError) as error:
            problem = problem or error
            note(f"snapshot {snapshot.origin} cannot be restored: {error}")
    if problem is not None:
        raise DamagedError(f"None of the snapshots of the item can be restored: {problem}")
    _clear(folder, scan(folder))
    return None


def _clear(folder: Path, paths: Iterable[str]) -> None:
    sweep_parts(folder)
    (folder / COMMIT).unlink(missing_ok=True)
    for path in paths:
        os.unlink(folder / path)
