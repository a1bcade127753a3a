"""This machine in place of a cloud: what it has, and the folder of its job store."""

from __future__ import annotations

import os
from pathlib import Path

from tidemill.clouds.local.desk import folder_of
from tidemill.descriptor import Descriptor
from tidemill.errors import CallerError
from tidemill.machine import Capacity
from tidemill.services.local.backend import DEFAULT_FOLDER, describe_machine, publish
from tidemill.services.local.background import HereBackend
from tidemill.store import Store


def folder_here(store: str | None) -> Path:
    """The folder of a store that is given as a folder, as its URI, or as None for the default."""
    if store is None:
        return Path(DEFAULT_FOLDER).absolute()
    return folder_of(store if "://" in store else f"file://{Path(store).absolute()}")


def describe_here(store: str | None, workers: int | None) -> Descriptor:
    """A descriptor of this machine, whose store is made where it is not there.

    Args:
        store: See `folder_here`.
        workers: Items side by side; None for as many as there are CPUs.

    Raises:
        CallerError: The folder cannot be made, or not be written to.
    """
    folder, capacity = folder_here(store), Capacity.read()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error.strerror) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unusable(folder, "It cannot be written to")
    cpus = max(1, int(capacity.cpus + 0.01))
    return describe_machine(folder.as_uri(), cpus, capacity.memory_mib, len(capacity.gpus), workers or cpus)


def open_here(folder: str | Path | None, workers: int | None) -> tuple[Descriptor, Store, HereBackend]:
    """A pipeline of this machine, which works on its jobs until this process ends. See `Pipeline.local`."""
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise CallerError.about(
            "workers", workers, "a whole number of at least 1", "Leave it out for as many as there are CPUs."
        )
    descriptor = describe_here(None if folder is None else str(folder), workers)
    return descriptor, publish(descriptor), HereBackend(descriptor, workers)


def _unusable(folder: Path, why: str | None) -> CallerError:
    allowed = "a folder that you may write to"
    return CallerError.about("the job store's folder", str(folder), allowed, f"{why}. Give another folder.")
