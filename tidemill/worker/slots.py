"""A slot: what one of the items that run side by side has to itself."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tidemill.worker.scratch import remove


@dataclass
class Slot:
    """A slot of a worker.

    Attributes:
        number: From 0.
        folder: In the worker's scratch; nobody else's.
        env: Variables that its programs see.
        current: Index of the item that runs in it now, or that ran in it when the worker was stopped.
    """

    number: int
    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    current: int | None = None

    def empty(self, name: str) -> Path:
        """A folder of the slot, empty: made when it is first needed, and cleaned of what the item before left."""
        path = self.folder / name
        try:
            left = os.listdir(path)
            # Its owner may have made it read-only; then it is made anew.
            if not left and os.access(path, os.W_OK | os.X_OK):
                return path
        except OSError:
            pass
        if path.is_symlink() or path.is_file():
            path.unlink()
        with suppress(FileNotFoundError):
            remove(path)
        path.mkdir(parents=True)
        return path
