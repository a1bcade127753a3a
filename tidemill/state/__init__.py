"""State: the folder of an item that survives its machine, and its snapshots in the job store.

Nothing here knows of workers or clients: a folder, a store, and which snapshot counts.
"""

from tidemill.state.choose import NO_PROGRESS, choose, without_progress
from tidemill.state.restore import restore
from tidemill.state.save import Saver
from tidemill.state.scan import COMMIT, Scan, StateError, mapped_files, open_files, scan
from tidemill.state.snapshots import Snapshot, Snapshots, SupersededError
from tidemill.state.watched_state import WatchedState

__all__ = [
    "COMMIT",
    "NO_PROGRESS",
    "Saver",
    "Scan",
    "Snapshot",
    "Snapshots",
    "StateError",
    "SupersededError",
    "WatchedState",
    "choose",
    "mapped_files",
    "open_files",
    "restore",
    "scan",
    "without_progress",
]
