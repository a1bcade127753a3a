"""Answers of the cloud, kept for a while in the user's cache folder, so that a question is not asked twice.

A file per call, written whole under another name first: two programs that write at once leave one whole file, and what
is torn all the same is as good as absent. A folder that cannot be written to costs only the calls.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidemill.folders import cache_folder, replace_file

KEPT_SECONDS = 7 * 86_400
"""After that a file is deleted."""
SKEW_SECONDS = 60.0
"""How far in the future the time of an answer may be; beyond, the clock has jumped, and its age is unknown."""
_FORMAT = 1


class Cache:
    """The kept answers.

    Args:
        folder: Where; None for a folder in the user's cache folder.
        clock: Seconds since the epoch.
    """

    def __init__(self, folder: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._given, self._clock = folder, clock

    def find(self, key: object, seconds: float) -> tuple[float, Any] | None:
        """When an answer was given, in seconds since the epoch, and the answer, if it is not older than `seconds`."""
        try:
            stored = json.loads(self._path(key).read_bytes())
            form, at, data = stored["format"], float(stored["at"]), stored["data"]
        except (OSError, RuntimeError, ValueError, LookupError, TypeError, RecursionError):
            return None
        age = self._clock() - at
        return (at, data) if form == _FORMAT and -SKEW_SECONDS <= age <= seconds else None

    def keep(self, key: object, data: Any) -> float:
        """Keep an answer that was given just now; returns the time."""
        now = self._clock()
        with suppress(OSError, RuntimeError):
            path = self._path(key)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(path, json.dumps({"format": _FORMAT, "at": now, "data": data}).encode())
            self._clean(path.parent, now)
        return now

    def _path(self, key: object) -> Path:
        text = json.dumps(key, sort_keys=True)
        return (self._given or cache_folder() / "advice") / f"{hashlib.sha256(text.encode()).hexdigest()}.json"

    def _clean(self, folder: Path, now: float) -> None:
        for path in folder.iterdir():
            with suppress(OSError):
                if now - path.stat().st_mtime > KEPT_SECONDS:
                    path.unlink()
