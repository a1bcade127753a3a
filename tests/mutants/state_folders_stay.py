"""Mutant: a restore removes files, and leaves the folders that they were in."""

import sys

from tidemill.state import restore, scan
from tidemill.state.scan import COMMIT


def apply() -> None:
    sys.modules[restore.__module__]._leave = leave  # type: ignore[attr-defined]


def leave(folder, sizes):  # type: ignore[no-untyped-def]
    folder.mkdir(parents=True, exist_ok=True)
    there = scan(folder)
    (folder / COMMIT).unlink(missing_ok=True)
    for path, seen in there.items():
        if sizes.get(path) != seen.size:
            (folder / path).unlink()
