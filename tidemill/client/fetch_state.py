"""The newest saved state of a job's items as folders of this machine."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from tidemill.client.downloads import full, unwritable
from tidemill.client.item_names import ItemNames
from tidemill.errors import CallerError
from tidemill.job import JobSpec
from tidemill.ledger import Ledger
from tidemill.ledger.paired import items_of
from tidemill.state.snapshots import newest_tree
from tidemill.tree import fetch_tree

STATE = "state"
_THREADS = 16


def fetch_state(
    ledger: Ledger,
    spec: JobSpec,
    folder: Path,
    *,
    wanted: Collection[int] | None,
    names: ItemNames,
    look: Callable[[], None],
) -> int:
    """Bring the newest snapshot of each item to `state/<name>/` below a folder, and return how many items had one.

    Files are checked by their SHA-256; those that are there already stay, and so do files that no snapshot has.

    Raises:
        CallerError: The job has no state, or the folder cannot be written or is full.
        CloudError: The store refused, or a snapshot is damaged.
    """
    if spec.state is None:
        raise CallerError("state is asked for, and the job's items have none.", "Leave it out.", what="state")
    found = 0
    try:
        for item in items_of(ledger):
            look()
            tree = newest_tree(ledger.store, spec.job, item.index) if wanted is None or item.index in wanted else None
            if tree is not None and tree.files:
                fetch_tree(ledger.store, tree, folder / STATE / names.of(item), threads=_THREADS)
                found += 1
    except OSError as error:
        raise full(folder, error) or unwritable(folder, error) from None
    return found
