"""A local job's own folder."""

from __future__ import annotations

import fcntl
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from tidemill import layout
from tidemill.errors import CallerError


def folder_of(store: str) -> Path:
    """The folder of a ``file://`` store.

    Raises:
        CallerError: It is another kind of store.
    """
    parts = urlsplit(store)
    if parts.scheme != "file" or parts.netloc or not parts.path.startswith("/"):
        raise CallerError.about(
            "store", store, "a URI such as file:///folder", "A local run keeps its store in a folder."
        )
    return Path(unquote(parts.path))


@dataclass(frozen=True)
class Origin:
    """Where a job was first run.

    Attributes:
        folder: The folder in which the command was typed: modules are imported from there.
        python: Interpreter of its functions; None for `python3` on PATH.
        workers: Items side by side in its latest run.
    """

    folder: str
    python: str | None = None
    workers: int = 1


class Desk:
    """A local job's own folder next to its ledger: its run's lock, where it was typed, what its workers printed."""

    def __init__(self, store: str, job: str) -> None:
        self.folder = folder_of(store) / layout.JOBS / job / "local"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def remember(self, origin: Origin) -> None:
        """Note where the job runs from, for a run that continues it."""
        self.logs.mkdir(parents=True, exist_ok=True)
        (self.folder / "origin.json").write_text(json.dumps(asdict(origin)))

    def origin(self) -> Origin | None:
        """Where the job was last run from; None when it never was, or that folder is gone."""
        try:
            found = Origin(**json.loads((self.folder / "origin.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return found if Path(found.folder).is_dir() else None

    def lock(self, wait_seconds: float) -> IO[bytes] | None:
        """Take the job's lock; None when a live run holds it. A run that was just killed still ends its programs, so
        this waits for a while."""
        self.logs.mkdir(parents=True, exist_ok=True)
        file = (self.folder / "lock").open("ab")
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return file
            except OSError:
                if time.monotonic() >= deadline:
                    file.close()
                    return None
            time.sleep(0.02)

    @property
    def alive(self) -> bool:
        if not (self.folder / "lock").exists():
            return False
        with (self.folder / "lock").open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
        return False
