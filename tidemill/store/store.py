"""An object store: the few operations that a job needs, each with an end.

A thin synchronous layer over obstore. Every call is bounded: obstore repeats what is safe to repeat, and this layer
repeats a call that failed as a whole a few times, then raises `StoreError`.
"""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore, MemoryStore

from tidemill.errors import CallerError, FileChangedError, StoreDeniedError, StoreError, StoreMissingError
from tidemill.store.answers import CreateResult, Entry, UploadResult
from tidemill.store.clients import OBJECT_STORES
from tidemill.store.errors import as_exception, translated
from tidemill.store.files import PART_BYTES, STREAM_BYTES, blocks, copy_from, how_to_put, no_room, open_plain, put_into

T = TypeVar("T")
PAGE = 1000
"""Names per page of a listing: https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html."""
_PAUSES = (0.2, 1.0, 3.0)
"""Seconds before a call that failed as a whole is made again, jittered."""


class Store:
    """One bucket, folder or memory, under a prefix. Names are relative to it and use ``/``."""

    def __init__(self, backend: Any, uri: str) -> None:
        self._backend = backend
        scheme, _, rest = uri.partition("://")
        self.uri = f"{scheme}://{rest.rstrip('/')}"
        self.listings = 0
        """Listings asked for so far, by the page: on object stores they are the most expensive requests."""

    @classmethod
    def open(cls, uri: str, *, region: str | None = None, user_login: bool = False) -> Store:
        """Open a store.

        Args:
            uri: ``s3://bucket[/prefix]``, ``gs://bucket[/prefix]``, ``file:///folder`` or ``memory://``.
            region: AWS region; else TIDEMILL_REGION, AWS_REGION or AWS_DEFAULT_REGION.
            user_login: Use the login of the person at the keyboard (profile, SSO, workload identity) through boto3
                or google-auth, which are imported only then. Otherwise the container's own credentials.

        Raises:
            CallerError: The URI is not one of these.
        """
        parts = urlsplit(uri)
        if parts.scheme in OBJECT_STORES and parts.netloc:
            return cls(OBJECT_STORES[parts.scheme](uri, region, user_login), uri)
        if parts.scheme == "file" and not parts.netloc and parts.path:
            return cls(LocalStore(unquote(parts.path), mkdir=True), uri)
        if parts.scheme == "memory":
            return cls(MemoryStore(), uri or "memory://")
        raise CallerError.about("store", uri, "s3://bucket, gs://bucket, file:///folder or memory://", "Give its URI.")

    @property
    def is_object_store(self) -> bool:
        """True if requests cost money and tens of milliseconds."""
        return self.uri.partition("://")[0] in OBJECT_STORES

    def uri_of(self, name: str) -> str:
        return f"{self.uri}/{name}"

    # ---- whole objects ------------------------------------------------------------------------------------------

    def get(self, name: str) -> bytes:
        """An object's bytes; `StoreMissingError` if there is none."""
        return _read(self, name, "GET", lambda: bytes(obstore.get(self._backend, name).bytes()))

    def find(self, name: str) -> bytes | None:
        try:
            return self.get(name)
        except StoreMissingError:
            return None

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """``length`` bytes from ``start`` (less at the object's end)."""
        return _bounded(
            "GET", self.uri_of(name), lambda: bytes(obstore.get_range(self._backend, name, start=start, length=length))
        )

    def put(
        self, name: str, data: bytes | Callable[[], Iterator[bytes]], size: int = 0, *, media_type: str = ""
    ) -> None:
        """Write an object, or its `size` bytes from a function that gives blocks; an error of that leaves no object.
        A browser shows an object of a `media_type` that it knows."""
        attributes: Any = {"Content-Type": media_type} if media_type and self.is_object_store else None
        put = partial(put_into, self._backend, name, attributes=attributes, **how_to_put(size))
        _bounded("PUT", self.uri_of(name), lambda: put(data() if callable(data) else data))

    def exists(self, name: str) -> bool:
        return self.size(name) is not None

    def size(self, name: str) -> int | None:
        """An object's bytes, counted; None when it is not there."""
        try:
            return int(_read(self, name, "HEAD", lambda: obstore.head(self._backend, name))["size"])
        except StoreMissingError:
            return None

    def create(self, name: str, data: bytes) -> CreateResult:
        """Write an object only if nothing is there, and know for certain whose content it holds.

        "Already exists" does not mean that another writer was first. Our own write may have won and its reply been
        lost, and a 409 is sent with no object written at all
        (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html). So the object is read back:
        absent, the create is made again; equal to ``data``, it is ours. Contents must therefore tell writers apart.

        Raises:
            StoreError: No certain answer within the bounds.
            CallerError: The store has no conditional create.
        """
        for pause in (*_PAUSES, None):
            try:
                _bounded("PUT", self.uri_of(name), lambda: put_into(self._backend, name, data, mode="create"))
                return CreateResult(True, data)
            except (AlreadyExistsError, StoreDeniedError) as error:
                settled = self._read_back(name, data)
                # Who may create, and not replace, may be refused before the store looks at what is there.
                if settled is None and isinstance(error, StoreDeniedError):
                    raise
            if settled is not None:
                return settled
            time.sleep((pause or 0) * random.uniform(0.5, 1.5))
        raise StoreError(f"{self.uri_of(name)}: the store reports that it exists but does not return it.")

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects; one that is not there is as good as deleted."""
        try:
            _bounded("DELETE", self.uri_of(names[0]), lambda: obstore.delete(self._backend, list(names)))
        except StoreMissingError:
            for name in names if len(names) > 1 else ():
                self.delete([name])

    def _read_back(self, name: str, data: bytes) -> CreateResult | None:
        """The content that is there after "already exists"; None when there is none."""
        content = self.find(name)
        return None if content is None else CreateResult(content == data, content)

    # ---- listings -----------------------------------------------------------------------------------------------

    def list(self, prefix: str, offset: str | None = None) -> Iterator[str]:
        """Names under a folder (all if empty) that sort after `offset`, in the store's order, as they arrive."""
        for entry in self.entries(prefix, offset):
            yield entry.name

    def entries(self, prefix: str, offset: str | None = None) -> Iterator[Entry]:
        """The same with each object's size and time."""
        folder = prefix.rstrip("/") or None
        if not self.is_object_store:
            yield from _bounded("LIST", self.uri_of(prefix), lambda: list(self._pages(folder, offset)))
            return
        last = offset

        def rest() -> Iterator[Entry]:
            nonlocal last
            for entry in self._pages(folder, last):
                last = entry.name
                yield entry

        yield from _resumed("LIST", self.uri_of(prefix), rest)

    def page(self, prefix: str, offset: str | None = None) -> list[Entry]:
        """The first thousand names under a prefix, by one request; all of them where listing costs nothing."""
        folder = prefix.rstrip("/") or None
        whole = None if not self.is_object_store else PAGE
        return _bounded("LIST", self.uri_of(prefix), lambda: list(islice(self._pages(folder, offset), whole)))

    def _pages(self, folder: str | None, offset: str | None) -> Iterator[Entry]:
        self.listings += 1
        for number, page in enumerate(obstore.list(self._backend, folder, offset=offset, chunk_size=PAGE)):
            self.listings += number > 0
            for entry in page:
                yield Entry(entry["path"], entry["size"], entry["last_modified"].timestamp(), entry["e_tag"] or "")

    def folders(self, prefix: str) -> list[str]:
        """Names of the folders directly under a folder, in order; what is in them is not listed."""
        self.listings += 1
        listing = _bounded(
            "LIST", self.uri_of(prefix), lambda: obstore.list_with_delimiter(self._backend, prefix.rstrip("/"))
        )
        return sorted(listing["common_prefixes"])

    # ---- files --------------------------------------------------------------------------------------------------

    def download(self, name: str, path: Path, stop: Callable[[], bool] = lambda: False, room: int | None = None) -> int:
        """Bring an object into a file and return its bytes; memory use does not depend on its size.

        Args:
            name: The object.
            path: The file, which is replaced.
            stop: Called between blocks; true ends the transfer with `InterruptedError`.
            room: How many bytes the object may have; None for any number.

        Raises:
            StoreMissingError: It is not there.
            OSError: It is larger than `room`, or the disk is full (`errno.ENOSPC`).
        """

        def transfer() -> int:
            written, answer = 0, obstore.get(self._backend, name)
            size = answer.meta["size"]
            if room is not None and size > room:
                raise no_room(size, room)
            small = size <= STREAM_BYTES
            with path.open("wb") as file:
                if not small and (copied := self.copy_here(name, file, stop)) is not None:
                    return copied
                # Each block of a stream costs two more changes of threads.
                for block in [answer.bytes()] if small else answer.stream(min_chunk_size=STREAM_BYTES):
                    if stop():
                        raise InterruptedError(f"the transfer of {name} was stopped")
                    written += file.write(block)
            return written

        return _bounded("GET", self.uri_of(name), transfer)

    def copy_here(self, name: str, file: BinaryIO, stop: Callable[[], bool] = lambda: False) -> int | None:
        """Let the system copy an object of a folder into an open file (`copy_from`)."""
        return copy_from(self._backend, name, file, stop)

    def stream(
        self, name: str, start: int = 0, end: int | None = None, block_bytes: int = STREAM_BYTES
    ) -> Iterator[bytes]:
        """An object's bytes from a position to another or to its end, a block at a time. A connection that breaks is
        made again where it broke.

        Raises:
            StoreMissingError: The object is not there.
            StoreError: It ended before `end`.
        """
        position = start

        def rest() -> Iterator[bytes]:
            nonlocal position
            for block in _part(self._backend, name, position, end, block_bytes):
                yield bytes(block)
                position += len(block)
            if end is not None and position != end:
                raise StoreError(f"{self.uri_of(name)} ended at byte {position} of {end}.")

        yield from _resumed("GET", self.uri_of(name), rest)

    def upload(self, path: Path | str, name: str, *, hashed: bool = False, settled: bool = True) -> UploadResult:
        """Stream a file into an object, in parts when it is large: the bytes that it has when the upload begins.

        Args:
            path: The file.
            name: The object.
            hashed: Whether its SHA-256 is wanted, which is computed on the way.
            settled: Whether the file must not change meanwhile.

        Raises:
            OSError: The file cannot be opened.
            ValueError: It is not a plain file.
            FileChangedError: It changed meanwhile.
            StoreError: The store did not take it.
        """
        with open_plain(path) as file:
            before = os.fstat(file.fileno())

            def transfer() -> UploadResult:
                digest = hashlib.sha256() if hashed else None
                file.seek(0)
                parts = blocks(file, before.st_size, digest)
                data = b"".join(parts) if before.st_size <= PART_BYTES else parts
                put_into(self._backend, name, data, **how_to_put(before.st_size))
                return UploadResult(before.st_size, digest.hexdigest() if digest else None)

            uploaded = _bounded("PUT", self.uri_of(name), transfer)
            after = os.fstat(file.fileno())
        if settled and (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise FileChangedError(
                f"{os.path.basename(path)!r} changed during its upload: something still writes to it."
            )
        return uploaded


# ---- bounds -------------------------------------------------------------------------------------------------------


def _part(backend: Any, name: str, start: int, end: int | None, block_bytes: int) -> Any:
    """An object's blocks from a position to another or to its end."""
    if end is not None and 0 < end - start <= block_bytes:
        # A stream would wake two more threads.
        return [obstore.get_range(backend, name, start=start, end=end)]
    options: Any = {"range": (start, end)} if end is not None else {"range": {"offset": start}} if start else {}
    return obstore.get(backend, name, options=options).stream(min_chunk_size=block_bytes)


def _read(store: Store, name: str, verb: str, call: Callable[[], T]) -> T:
    """A bounded call that reads an object which may not be there.

    S3 answers 403 instead of 404 for what is absent when the caller may not list the whole bucket
    (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html, "Permissions"); a role that may list only some
    prefixes is such a caller. So after a refusal the folder is listed, which it may.
    """
    try:
        return _bounded(verb, store.uri_of(name), call)
    except StoreDeniedError:
        if store.is_object_store and not _is_listed(store, name):
            raise StoreMissingError(f"{store.uri_of(name)} does not exist.") from None
        raise


def _is_listed(store: Store, name: str) -> bool:
    """True if a listing shows a name, or cannot be read."""
    folder, _, _ = name.rpartition("/")
    try:
        return name in takewhile(lambda listed: listed <= name, store.list(folder, offset=name[:-1]))
    except StoreError:
        return True


def _bounded(verb: str, uri: str, call: Callable[[], T]) -> T:
    """Make a call, and again after a failure that may pass, within bounds."""
    (answer,) = _resumed(verb, uri, lambda: [call()])
    return answer


def _resumed(verb: str, uri: str, rest: Callable[[], Iterable[T]]) -> Iterator[T]:
    """The rest of a transfer, requested again after a failure that may pass, within bounds."""
    for pause in (*_PAUSES, None):
        try:
            yield from rest()
            return
        except (AlreadyExistsError, GeneratorExit):
            raise
        except BaseException as error:
            failure = translated(as_exception(error), verb, uri)
            if type(failure) is not StoreError or pause is None:
                try:
                    raise failure from error
                finally:
                    # Its traceback holds this frame and those of all callers: the frame must not hold it in turn.
                    del failure
        time.sleep(pause * random.uniform(0.5, 1.5))
