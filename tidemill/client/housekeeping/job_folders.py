"""The folders of a job in its store: how large they are, and their removal.

A note comes first and goes last, and within it the mark in place of the spec. So a removal that was interrupted at any
point can be told from a mark that another submitter has written, and finished.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tidemill import layout
from tidemill.client.items.local_files import path_of
from tidemill.client.site import Site
from tidemill.errors import CallerError, StoreDeniedError, StoreError
from tidemill.ledger.removal_mark import is_mark, mark_removed
from tidemill.removal import remove
from tidemill.store import Store

_PROBE = ".rm"
"""The name of an object that is never there: a store that lets a caller delete it would let them delete the others."""


@dataclass(frozen=True)
class Extent:
    """The size of some folders.

    Attributes:
        objects: How many objects, or files.
        bytes: Their bytes.
        written: When the newest of them was written, in seconds since the epoch; 0 where there is none.
    """

    objects: int = 0
    bytes: int = 0
    written: float = 0.0

    def plus(self, other: Extent) -> Extent:
        return Extent(self.objects + other.objects, self.bytes + other.bytes, max(self.written, other.written))


def folders_of(job: str) -> list[str]:
    """The folders of a job: its outputs, its items' state, and everything else about it."""
    return [layout.out(job), f"{layout.STATE}/{job}", f"{layout.JOBS}/{job}"]


def extent(store: Store, folder: str) -> Extent:
    """How large a folder of a store is."""
    if root := local_folder(store):
        return extent_of_files([root / folder])
    return _sum((entry.size, entry.modified) for entry in store.entries(folder))


def extent_of_files(folders: Iterable[Path]) -> Extent:
    """How large folders of this machine are. A program may have made anything of them. No link is followed."""
    real = (path for path in folders if not path.is_symlink())
    names = (os.path.join(top, name) for path in real for top, _, files in os.walk(path) for name in files)
    return _sum((status.st_size, status.st_mtime) for status in map(os.lstat, names))


def _sum(entries: Iterable[tuple[int, float]]) -> Extent:
    objects = size = 0
    newest = 0.0
    for bytes_, written in entries:
        objects, size, newest = objects + 1, size + bytes_, max(newest, written)
    return Extent(objects, size, newest)


def remove_job(site: Site, job: str, check_unused: Callable[[], None]) -> None:
    """Remove a job. Of one that an earlier removal has left half-way, the rest. Its note stays: see `forget_removals`.

    Args:
        site: Where it is.
        job: Its id.
        check_unused: Raises if another job has come to use it. Called when a later submit can see that it goes.

    Raises:
        CallerError: A run works on it, or another job uses it. It stays whole.
        CloudError: The store refuses. Nothing is removed where this login may not delete.
    """
    store = site.store
    with ExitStack() as held:
        if site.local:
            # Imported late: it needs fcntl, which Windows does not have.
            from tidemill.clouds.local.desk import Desk

            if (lock := Desk(store.uri, job).lock(0)) is None:
                raise running(job)
            held.enter_context(lock)
        check_may_delete(store, job)
        spec = layout.spec(job)
        before = store.find(spec)
        store.put(layout.removal(job), b"")
        mark_removed(store, job, site.account.user())
        try:
            check_unused()
        except BaseException:
            if before is not None:
                store.put(spec, before)
                _delete(store, [layout.removal(job)])
            raise
        for folder in folders_of(job):
            remove_folder(store, folder, keep=spec)
        _delete(store, [name for name in store.list(layout.JOURNAL) if name.endswith(f"~{job}")])
        _delete(store, [layout.held(job)])
        _delete(store, [spec])
        if folder := local_folder(store):
            remove(folder / layout.JOBS / job)


def forget_removals(store: Store, jobs: Iterable[str]) -> None:
    """Delete the notes of removals that are complete: the same removal again finds no such jobs."""
    _delete(store, [layout.removal(job) for job in jobs])


def is_half_removed(store: Store, job: str) -> bool:
    """True if a removal of a job has begun and not finished.

    Raises:
        CallerError: It has the mark of a removal, and none has begun: whoever submits can overwrite a spec.
    """
    found = store.find(layout.spec(job))
    if found is not None and not is_mark(found):
        return False
    if store.exists(layout.removal(job)):
        return True
    if found is None:
        return False
    raise CallerError(
        f"{store.uri_of(layout.spec(job))} says that {job} is being removed, but no removal has begun.",
        "Somebody has overwritten it. Restore an earlier version of it, or delete the job's folders by hand.",
        what="job",
        value=job,
    )


def running(job: str, state: str = "running") -> CallerError:
    """The error for a job that has not ended."""
    fix = f"`tidemill cancel {job}` ends it."
    return CallerError(f"{job} is {state}, and only a job that has ended can be removed.", fix, what="job", value=job)


def check_may_delete(store: Store, job: str) -> None:
    """Refuse a removal by a login that may not delete everything of a job, before anything changes."""
    if not store.is_object_store:
        return
    try:
        for folder in folders_of(job):
            store.delete([f"{folder}/{_PROBE}"])
    except StoreDeniedError as error:
        raise StoreDeniedError(
            f"{job} stays, because this login may not delete in {store.uri}.",
            "No submitter may, so that nothing that finished is lost. The stack's owner can remove it with the same "
            "command.",
            code=error.code,
            what="job",
            value=job,
            owner=True,
        ) from error


def remove_folder(store: Store, folder: str, keep: str = "") -> None:
    """Delete everything in a folder, except the object `keep`."""
    if root := local_folder(store):
        path = root / folder
        # A link in its place may lead anywhere: it goes, and what it leads to stays.
        for entry in path.iterdir() if path.is_dir() and not path.is_symlink() else ():
            if entry != root / keep:
                remove(entry)
                if os.path.lexists(entry):
                    raise StoreError(f"{entry} cannot be removed.", "Make it yours, then repeat the command.")
        if path.is_symlink() or not keep.startswith(f"{folder}/"):
            remove(path)
        return
    while names := [entry.name for entry in store.page(folder) if entry.name != keep]:
        store.delete(names)


def _delete(store: Store, names: list[str]) -> None:
    if names:
        store.delete(names)


def local_folder(store: Store) -> Path | None:
    """The folder of a store of this machine."""
    path = path_of(store.uri)
    return None if path is None else Path(path)
