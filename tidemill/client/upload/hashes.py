"""SHA-256 of files of this machine, remembered in the user's cache folder, so that what is unchanged is not read."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from tidemill.client.items.local_files import LocalFile, Reading
from tidemill.folders import cache_folder

KEPT_DAYS = 180
"""Days for which a hash is kept; a file that is still the same then is read once more."""
FRESH_NS = 2 * 10**9
"""A file that was written less than this before it was read is not remembered: it may change again within the same
tick of the file system's clock."""
BATCH = 1000
_DAY = 86_400
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS files (path BLOB PRIMARY KEY, size INTEGER, mtime INTEGER, inode INTEGER, "
    "ctime INTEGER, sha256 BLOB, day INTEGER) WITHOUT ROWID"
)


class Hashes:
    """The remembered hashes. A cache that cannot be used is done without; nothing depends on it.

    Args:
        path: Its file; None for the one in the user's cache folder.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._new: list[tuple[object, ...]] = []
        self._db: sqlite3.Connection | None = None
        with suppress(OSError, RuntimeError, sqlite3.Error):
            path = path or cache_folder() / "hashes.sqlite"
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._db = _opened(path)
            except sqlite3.DatabaseError:
                # It is damaged, and only a cache.
                path.unlink()
                self._db = _opened(path)

    def find(self, file: LocalFile) -> str | None:
        """The SHA-256 of a file in hex, if it is unchanged since it was read."""
        if self._db is None:
            return None
        try:
            query = "SELECT sha256 FROM files WHERE path = ? AND size = ? AND mtime = ? AND inode = ? AND ctime = ?"
            row = self._db.execute(query, _key(file)).fetchone()
        except sqlite3.Error:
            self._give_up()
            return None
        return row[0].hex() if row else None

    def read(self, file: LocalFile) -> str:
        """Read a file for its SHA-256 in hex, and remember it.

        Raises:
            CallerError: It cannot be read, or changes while it is read.
        """
        with Reading(file) as reading:
            sha256 = reading.sha256()
        self.note(file, sha256)
        return sha256

    def note(self, file: LocalFile, sha256: str) -> None:
        """Remember the SHA-256 of a file that was just read."""
        now = time.time_ns()
        # Where times are whole seconds, that of the last change does not tell two writes apart either.
        coarse = file.ctime_ns % 10**9 == 0
        if now - max(file.mtime_ns, file.ctime_ns * coarse) > FRESH_NS:
            self._new.append((*_key(file), bytes.fromhex(sha256), now // (_DAY * 10**9)))
        if len(self._new) >= BATCH:
            self.save()

    def save(self) -> None:
        """Write what is new."""
        new, self._new = self._new, []
        if self._db is None or not new:
            return
        try:
            with self._db:
                self._db.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", new)
        except sqlite3.Error:
            self._give_up()

    def close(self) -> None:
        self.save()
        self._give_up()

    def _give_up(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=5)
    try:
        # A cache that a power failure damages is made again.
        db.execute("PRAGMA synchronous = OFF")
        db.execute(_SCHEMA)
        with db:
            db.execute("DELETE FROM files WHERE day < ?", (int(time.time() / _DAY) - KEPT_DAYS,))
    except BaseException:
        db.close()
        raise
    return db


def _key(file: LocalFile) -> tuple[bytes, int, int, int, int]:
    # An inode may need 64 bits; SQLite's integers are signed.
    inode = file.inode - (1 << 64) if file.inode >= 1 << 63 else file.inode
    return os.fsencode(os.path.abspath(file.path)), file.size, file.mtime_ns, inode, file.ctime_ns
