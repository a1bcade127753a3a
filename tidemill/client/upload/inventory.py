"""Earlier uploads in the job store, from a listing where that is cheaper than asking for each file."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile

from tidemill import layout
from tidemill.store import PAGE, Entry, Store

_DAY = 86_400
_RANGES = 16
_SPACE = 16**8
"""The names that follow `uploads/` begin with a hash, so the first digits of a page's last name tell how many there
are."""


class Inventory:
    """Uploads that a new job may rely on: they are there, and do not expire while it runs.

    Args:
        store: The job store.
        expire_days: Days after which the store deletes an upload; None for never.
        lasts: Seconds that an attempt may take, and needs the upload.
        now: The time by the store's clock.
    """

    def __init__(self, store: Store, expire_days: float | None, lasts: float = 0.0, now: float = 0.0) -> None:
        self._store = store
        life = None if expire_days is None else expire_days * _DAY
        self._oldest = 0.0 if life is None else now - max(0.0, min(life / 2, life - lasts))
        """An upload from before this is sent again: what expires is deleted by its age, and to overwrite it begins
        that anew (https://docs.aws.amazon.com/AmazonS3/latest/userguide/lifecycle-expire-general-considerations.html,
        https://cloud.google.com/storage/docs/lifecycle#age)."""
        # On disk once it is large; no file has a name.
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute("CREATE TABLE names (name BLOB PRIMARY KEY) WITHOUT ROWID")
        self._lock = threading.Lock()
        self.listed = False
        """Whether it knows everything; otherwise it asks for each name."""

    def load(self, wanted: int) -> None:
        """List the uploads, unless that takes more requests than asking for so many."""
        first = self._store.page(layout.UPLOADS)
        self._add(first)
        if not self._store.is_object_store or len(first) < PAGE:
            self.listed = True
        elif _pages(first[-1].name) <= max(wanted, _RANGES):
            after = [first[-1].name, *(f"{layout.UPLOADS}/{digit}" for digit in layout.SHARDS)]
            edges = sorted(name for name in after if name >= first[-1].name)
            with ThreadPoolExecutor(_RANGES) as pool:
                list(pool.map(self._list, edges, [*edges[1:], "~"]))
            self.listed = True

    def _list(self, after: str, until: str) -> None:
        self._add(takewhile(lambda entry: entry.name < until, self._store.entries(layout.UPLOADS, after)))

    def _add(self, entries: Iterable[Entry]) -> None:
        for batch in _batches(_key(entry.name) for entry in entries if entry.modified >= self._oldest):
            with self._lock:
                self._db.executemany("INSERT OR IGNORE INTO names VALUES (?)", batch)

    def has(self, name: str) -> bool:
        """True if an upload is in the store already."""
        with self._lock:
            if self._db.execute("SELECT 1 FROM names WHERE name = ?", (_key(name),)).fetchone():
                return True
        if self.listed:
            return False
        folder = name.rpartition("/")[0]
        return any(entry.name == name for entry in self._store.entries(folder) if entry.modified >= self._oldest)

    def claim(self, name: str) -> bool:
        """True if the caller must send an upload: it is missing, and no other caller sends it now."""
        if self.has(name):
            return False
        with self._lock:
            return self._db.execute("INSERT OR IGNORE INTO names VALUES (?)", (_key(name),)).rowcount > 0

    def disclaim(self, name: str) -> None:
        """Take a claim back: the upload was not sent."""
        with self._lock:
            self._db.execute("DELETE FROM names WHERE name = ?", (_key(name),))

    def close(self) -> None:
        self._db.close()


def _key(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=16).digest()


def _pages(last: str) -> float:
    """How many pages a listing has whose first page ends with this name."""
    try:
        return _SPACE / max(1, int(last.removeprefix(f"{layout.UPLOADS}/")[:8], 16))
    except ValueError:
        # Beyond the hashes: it was nearly all of them.
        return 2.0


def _batches(keys: Iterable[bytes]) -> Iterator[list[tuple[bytes]]]:
    batch: list[tuple[bytes]] = []
    for key in keys:
        batch.append((key,))
        if len(batch) == PAGE:
            yield batch
            batch = []
    if batch:
        yield batch
