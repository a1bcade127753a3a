"""Objects of buckets: contents in files or, if small, in memory; sorted names; writes conditional on generations."""

from __future__ import annotations

import bisect
import hashlib
import itertools
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

SMALL = 1 << 18
LAST = "\U0010ffff"


class ConditionNotMetError(Exception):
    """The generation is not the one that the caller demanded; nothing was changed."""


@dataclass(frozen=True)
class Content:
    body: bytes
    content_type: str = ""
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Stored:
    """One generation of an object. `updated` is epoch seconds of the cloud's clock, and so is `deleted`, when it was
    replaced or deleted; `md5` is hexadecimal."""

    name: str
    generation: int
    size: int
    md5: str
    updated: float
    content_type: str
    metadata: dict[str, str]
    content: bytes | Path
    deleted: float | None = None

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """The bytes from `start` up to, but not including, `end`."""
        end = self.size if end is None else end
        if isinstance(self.content, bytes):
            return self.content[start:end]
        with self.content.open("rb") as file:
            file.seek(start)
            return file.read(end - start)


@dataclass
class Page:
    """Part of a listing; `more` is the last name covered if further names follow."""

    objects: list[Stored] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    more: str = ""


class _Bucket:
    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.names: list[str] = []
        self.older: list[Stored] = []
        """Noncurrent generations, the oldest first."""


class Objects:
    """All objects of all buckets; thread-safe. A reader of a generation keeps it while it is replaced.

    Args:
        folder: Folder of the large contents; it is emptied.
        now: Returns the time in epoch seconds.
    """

    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._folder, self._now = folder, now
        self._lock = threading.Lock()
        self._buckets: dict[str, _Bucket] = {}
        self._uploads: dict[str, dict[int, bytes]] = {}
        self._numbers = itertools.count(1)
        self._generation = 0

    def get(self, bucket: str, name: str) -> Stored | None:
        """The live generation, None when there is none."""
        with self._lock:
            return self._buckets.get(bucket, _Bucket()).objects.get(name)

    def put(
        self, bucket: str, name: str, content: Content, demanded: int | None = None, *, keep: bool = False
    ) -> Stored:
        """Write an object.

        Args:
            demanded: The generation that must exist, 0 for none; None demands nothing.
            keep: Whether the generation that it replaces stays as a noncurrent one.

        Raises:
            ConditionNotMetError: Another generation exists.
        """
        body = content.body
        kept = body if len(body) <= SMALL else self._folder / str(next(self._numbers))
        if isinstance(kept, Path):
            kept.write_bytes(body)
        md5 = hashlib.md5(body, usedforsecurity=False).hexdigest()
        with self._lock:
            held = self._buckets.setdefault(bucket, _Bucket())
            self._demand(held, name, demanded)
            now = self._now()
            self._generation = max(self._generation + 1, int(now * 1e6))
            kind, extra = content.content_type, content.metadata
            stored = Stored(name, self._generation, len(body), md5, now, kind, extra, kept)
            if name not in held.objects:
                bisect.insort(held.names, name)
            elif keep:
                held.older.append(replace(held.objects[name], deleted=now))
            held.objects[name] = stored
            return stored

    def older(self, bucket: str, prefix: str) -> list[Stored]:
        """The noncurrent generations of the objects below a prefix."""
        with self._lock:
            return [each for each in self._buckets.get(bucket, _Bucket()).older if each.name.startswith(prefix)]

    def forget(self, bucket: str, name: str, generation: int) -> bool:
        """Remove a noncurrent generation for good. Returns whether there was one."""
        with self._lock:
            held = self._buckets.get(bucket, _Bucket())
            left = [each for each in held.older if (each.name, each.generation) != (name, generation)]
            found, held.older = len(left) < len(held.older), left
            return found

    def delete(self, bucket: str, name: str, demanded: int | None = None, *, keep: bool = False) -> bool:
        """Remove an object, or with `keep` make it noncurrent. Returns whether there was one.

        Raises:
            ConditionNotMetError: A generation other than the demanded one exists.
        """
        with self._lock:
            held = self._buckets.get(bucket, _Bucket())
            self._demand(held, name, demanded)
            if (gone := held.objects.pop(name, None)) is None:
                return False
            if keep:
                held.older.append(replace(gone, deleted=self._now()))
            del held.names[bisect.bisect_left(held.names, name)]
            return True

    @staticmethod
    def _demand(held: _Bucket, name: str, demanded: int | None) -> None:
        there = held.objects.get(name)
        if demanded is not None and demanded != (there.generation if there else 0):
            raise ConditionNotMetError

    def list(
        self, bucket: str, prefix: str = "", delimiter: str = "", after: str = "", limit: int = 1000, *, first: str = ""
    ) -> Page:
        """One page in the order of names.

        Args:
            first: Names before this one are not listed.
            after: A name, or `more` of the previous page: only names after it are listed.
        """
        page, count = Page(), 0
        with self._lock:
            held = self._buckets.get(bucket, _Bucket())
            at = max(bisect.bisect_left(held.names, max(prefix, first)), bisect.bisect_right(held.names, after))
            while at < len(held.names) and held.names[at].startswith(prefix):
                name = held.names[at]
                if count == limit:
                    page.more = after
                    break
                head, found, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
                if found:
                    page.prefixes.append(prefix + head + delimiter)
                    after = prefix + head + delimiter + LAST
                    at = bisect.bisect_right(held.names, after)
                else:
                    page.objects.append(held.objects[name])
                    after = name
                    at += 1
                count += 1
        return page

    def begin(self) -> str:
        """The id of a new multipart upload."""
        with self._lock:
            upload = f"upload-{next(self._numbers)}"
            self._uploads[upload] = {}
            return upload

    def part(self, upload: str, number: int, body: bytes) -> bool:
        """Keep a part. Returns whether the upload exists."""
        with self._lock:
            if upload in self._uploads:
                self._uploads[upload][number] = body
            return upload in self._uploads

    def end(self, upload: str) -> bytes | None:
        """The joined parts of an upload, which is then removed; None if it does not exist."""
        with self._lock:
            parts = self._uploads.pop(upload, None)
        return None if parts is None else b"".join(body for _, body in sorted(parts.items()))
