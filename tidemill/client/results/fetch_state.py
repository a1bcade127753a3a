"""The newest saved state of a job's items as folders of this machine."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tidemill.client.results.downloads import full, parts_folder, unwritable
from tidemill.client.results.fetch_target import FetchContext
from tidemill.errors import CallerError, CloudError, DamagedError, StoreMissingError
from tidemill.job import Item, JobSpec
from tidemill.ledger import Ledger
from tidemill.ledger.outcome_items import items_of
from tidemill.state.snapshots import newest_tree
from tidemill.store import Store
from tidemill.store.ahead import in_order
from tidemill.tree import Tree, TreeFile, fetch_tree, is_there

STATE = "state"
_THREADS = 16
_REREADS = 5
"""How often the state of an item that runs is read."""


def fetch_state(ledger: Ledger, spec: JobSpec, how: FetchContext) -> int:
    """Bring the newest snapshot of each item to `state/<name>/` below the folder, and return how many items had one.

    Files are checked by their SHA-256; those that are there already stay, and so do files that no snapshot has.

    Raises:
        CallerError: The job has no state, or the folder cannot be written or is full.
        CloudError: The store refused, or a snapshot is damaged.
    """
    if spec.state is None:
        raise CallerError("state is asked for, and the job's items have none.", "Leave it out.", what="state")
    states = 0
    wanted = (item for item in items_of(ledger) if how.wants(item.index))

    def look(item: Item) -> tuple[Item, Tree | None]:
        tree = newest_tree(ledger.store, spec.job, item.index)
        if tree is None and (origin := ledger.origin(item.index)):
            tree = newest_tree(ledger.store, *origin)
        return item, tree

    try:
        with (
            ThreadPoolExecutor(_THREADS, thread_name_prefix="state") as pool,
            parts_folder(how.target.folder) as parts,
        ):
            for item, tree in in_order(pool, look, wanted):
                how.look()
                if tree is not None and tree.files:
                    to = _Destination(ledger.store, how, f"{STATE}/{how.names.of(item)}", parts)
                    _bring_newest(lambda of=item: look(of)[1], tree, to)
                    states += 1
    except OSError as error:
        folder = how.target.folder
        raise full(folder, error) or unwritable(folder, error) from None
    return states


class _Destination(NamedTuple):
    """Where the state of an item goes.

    Attributes:
        store: Where it comes from.
        how: What the parts of the fetch share.
        name: The folder, below the target.
        parts: Where files are that are not complete. Of two fetches at once each has its own.
    """

    store: Store
    how: FetchContext
    name: str
    parts: Path


def _bring_newest(newest: Callable[[], Tree | None], tree: Tree, to: _Destination) -> None:
    """Bring a tree; while its item saves newer ones and overwrites it, the newest. What is here already stays."""
    for _ in range(_REREADS):
        try:
            return _bring(tree, to)
        except (DamagedError, StoreMissingError):
            if (newer := newest()) is None or newer == tree:
                raise
            tree = newer
    raise CloudError(
        f"{to.name} changes more often than it can be read here: its item saves its state all the time.",
        "Fetch it when the item has ended, or on a machine in the store's region.",
    )


def _bring(tree: Tree, to: _Destination) -> None:
    """Bring a tree to a folder of the target, without the files that must not be written."""
    target, folder = to.how.target, to.how.target.folder / to.name
    refused: set[str] = set()

    def refuse(path: str, error: OSError) -> None:
        if full(target.folder, error) is not None:
            raise error
        refused.add(path)
        to.how.problems.append((f"{to.name}/{path}", error.strerror or str(error)))

    def may_write(file: TreeFile) -> bool:
        try:
            target.claim(f"{to.name}/{file.path}")
        except OSError as error:
            if not (error.errno == errno.EEXIST and is_there(file, folder / file.path)):
                refuse(file.path, error)
        return file.path not in refused

    def place(part: Path, path: Path) -> None:
        inside = path.relative_to(folder.resolve()).as_posix()
        try:
            target.place(part, f"{to.name}/{inside}")
        except OSError as error:
            refuse(inside, error)

    def fetched(file: TreeFile, _: int) -> None:
        if file.path not in refused:
            target.wrote(f"{to.name}/{file.path}", os.stat(folder / file.path))

    if files := tuple(filter(may_write, tree.files)):
        fetch_tree(to.store, Tree(files), folder, threads=_THREADS, fetched=fetched, parts=to.parts, place=place)
