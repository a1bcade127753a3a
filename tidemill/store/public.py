"""Buckets of S3 as the public sees them, where a login may not read.

S3 refuses the signed read of another account's public bucket by a role without a grant of its own, and takes the same
read without a signature (ADR 146).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from tidemill.errors import StoreDeniedError
from tidemill.store.answers import Entry
from tidemill.store.clients import unsigned_store
from tidemill.store.files import STREAM_BYTES
from tidemill.store.store import Store

T = TypeVar("T")


class PublicStore(Store):
    """A bucket whose reads are made again without a signature after a refusal. Everything else is signed."""

    def __init__(self, backend: Any, uri: str) -> None:
        super().__init__(backend, uri)
        public = Store(unsigned_store(uri, backend.config.get("region")), uri)
        self._ways = (Store(backend, uri), public)
        """The bucket with the login and without it; the one that answered last comes first."""

    def get(self, name: str) -> bytes:
        return self._read(lambda store: store.get(name))

    def get_range(self, name: str, start: int, length: int) -> bytes:
        return self._read(lambda store: store.get_range(name, start, length))

    def size(self, name: str) -> int | None:
        return self._read(lambda store: store.size(name))

    def page(self, prefix: str, offset: str | None = None) -> list[Entry]:
        return self._read(lambda store: store.page(prefix, offset))

    def folders(self, prefix: str) -> list[str]:
        return self._read(lambda store: store.folders(prefix))

    def download(self, name: str, path: Path, stop: Callable[[], bool] = lambda: False, room: int | None = None) -> int:
        return self._read(lambda store: store.download(name, path, stop, room))

    def entries(self, prefix: str, offset: str | None = None) -> Iterator[Entry]:
        return self._each(lambda store: store.entries(prefix, offset))

    def stream(
        self, name: str, start: int = 0, end: int | None = None, block_bytes: int = STREAM_BYTES
    ) -> Iterator[bytes]:
        return self._each(lambda store: store.stream(name, start, end, block_bytes))

    def _read(self, read: Callable[[Store], T]) -> T:
        (answer,) = self._each(lambda store: [read(store)])
        return answer

    def _each(self, read: Callable[[Store], Iterable[T]]) -> Iterator[T]:
        first, second = ways = self._ways
        begun = False
        try:
            for one in read(first):
                begun = True
                yield one
            return
        except StoreDeniedError as error:
            if begun:
                raise
            refused = error
        try:
            yield from read(second)
        except StoreDeniedError:
            raise refused from None
        if self._ways == ways:
            self._ways = (second, first)
