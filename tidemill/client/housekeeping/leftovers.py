"""Leftovers: what no job uses any more, in a store of this machine and beside it.

In a cloud there is nothing to find: rules of the store delete uploads and records by their age.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from tidemill import layout
from tidemill.client.housekeeping.job_folders import extent_of_files, local_folder
from tidemill.client.journal import newest_specs
from tidemill.client.site import Site
from tidemill.errors import DamagedError, StoreMissingError
from tidemill.folders import is_ours_alone, local_scratch
from tidemill.job import JOB_PATTERN, JobSpec
from tidemill.ledger import Ledger
from tidemill.ledger.outcome_items import items_of
from tidemill.store import Store

QUIET_SECONDS = 86_400.0
"""A submit may be writing what is younger."""


@dataclass(frozen=True)
class Leftover:
    """Something that no job uses.

    Attributes:
        what: What it is, for people.
        place: The folder in which it is.
        objects: How many files.
        bytes: Their bytes.
    """

    what: str
    place: str
    objects: int
    bytes: int


def leftovers(site: Site, without: Collection[str]) -> dict[Leftover, list[Path]]:
    """Everything that no job of a store of this machine uses, with its folders, as if the jobs `without` were gone.
    Nothing for a cloud's store."""
    root = local_folder(site.store)
    if not site.local or root is None:
        return {}
    jobs, uploads, code = root / layout.JOBS, root / layout.UPLOADS, local_scratch() / f"code-{os.getuid()}"
    found = [
        ("submits that died", jobs, _quiet(_without_spec(jobs))),
        ("uploads that no job uses", uploads, _quiet(_unused_uploads(site.store, uploads, without))),
        ("unpacked code of earlier runs", code, _idle_code(code)),
    ]
    return {_leftover(what, place, paths): paths for what, place, paths in found if paths}


def _leftover(what: str, place: Path, paths: list[Path]) -> Leftover:
    size = extent_of_files(paths)
    return Leftover(what, str(place), size.objects, size.bytes)


def _quiet(paths: list[Path]) -> list[Path]:
    """Those in which nothing was written for a day."""
    return [path for path in paths if extent_of_files([path]).written < time.time() - QUIET_SECONDS]


def _without_spec(jobs: Path) -> list[Path]:
    """Folders of jobs whose submit has not come as far as the spec."""
    folders = [path for path in jobs.iterdir() if re.fullmatch(JOB_PATTERN, path.name)] if jobs.is_dir() else []
    return [path for path in folders if not (jobs.parent / layout.spec(path.name)).exists()]


def _unused_uploads(store: Store, uploads: Path, without: Collection[str]) -> list[Path]:
    """The folders of uploads, one per SHA-256, that neither an item nor an input of a job names. None while one of the
    jobs cannot be read."""
    folders = uploads.iterdir() if uploads.is_dir() else ()
    unused = {path.name: path for path in folders if re.fullmatch("[0-9a-f]{64}", path.name)}
    prefix = f"{store.uri}/{layout.UPLOADS}/"
    try:
        for spec in newest_specs(store) if unused else ():
            for uri in _uris(store, spec) if spec.job not in without else ():
                if uri.startswith(prefix):
                    unused.pop(uri.removeprefix(prefix).partition("/")[0], None)
    except (DamagedError, StoreMissingError):
        return []
    return sorted(unused.values())


def _uris(store: Store, spec: JobSpec) -> Iterator[str]:
    yield from spec.inputs.values()
    yield from (item.uri for item in items_of(Ledger(store, spec.job, spec.manifest)))


def _idle_code(code: Path) -> list[Path]:
    """Unpacked code, while no worker runs on this machine. A later run unpacks its own again."""
    # Other users may write to the folder above, and make a link of this name.
    if not is_ours_alone(code) or any(map(_is_held, code.parent.glob("workers/*/lock"))):
        return []
    return [path for path in code.iterdir() if path.suffix != ".lock"]


def _is_held(lock: Path) -> bool:
    """True if a live process holds a lock."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
