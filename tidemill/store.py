"""An object store: the few operations that a job needs, each with an end.

A thin synchronous layer over obstore. Every call is bounded: obstore repeats what is safe to repeat, and this layer
repeats a call that failed as a whole a few times, then raises `StoreError`.
"""

from __future__ import annotations

import errno
import os
import random
import re
import stat
import time
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError
from obstore.store import LocalStore, MemoryStore

from tidemill.errors import CallerError, StoreDeniedError, StoreError, StoreMissingError
from tidemill.store_clients import gcs_store, s3_store
from tidemill.store_errors import as_exception, translated

T = TypeVar("T")
PAGE = 1000
"""Names in an answer to a listing: https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html."""
STREAM_BYTES = 8 * 1024 * 1024
PART_BYTES = 5 * 1024 * 1024
"""The smallest part of an upload in parts; a smaller file is sent in one request."""
MAX_PARTS = 10_000
"""Of an upload: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html."""
KEY_BYTES = 1024
FILE_NAME_BYTES = 253
_BUCKET = re.compile(r"[A-Za-z0-9][\w.:-]*$", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TEMPORARY = re.compile(r"#\d+$")
_PAUSES = (0.2, 1.0, 3.0)
"""Seconds before a call that failed as a whole is made again, jittered."""


class Created(NamedTuple):
    """What a conditional create left in the store."""

    ours: bool
    """True when the object holds what we wrote, whoever's reply was lost."""
    content: bytes
    """What the object holds."""


class Entry(NamedTuple):
    """What a listing says of an object."""

    name: str
    size: int
    """Bytes."""
    modified: float
    """Seconds since the epoch."""


class Store:
    """One bucket, folder or memory, under a prefix. Names are relative to it and use ``/``."""

    def __init__(self, backend: Any, uri: str) -> None:
        self._backend = backend
        scheme, _, rest = uri.partition("://")
        self.uri = f"{scheme}://{rest.rstrip('/')}"
        self.listings = 0
        """Listings asked for so far, by the page: on object stores they are the dearest requests."""

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
        if parts.scheme == "s3" and parts.netloc:
            return cls(s3_store(uri, region, user_login), uri)
        if parts.scheme == "gs" and parts.netloc:
            return cls(gcs_store(uri, user_login), uri)
        if parts.scheme == "file" and not parts.netloc and parts.path:
            return cls(LocalStore(unquote(parts.path), mkdir=True), uri)
        if parts.scheme == "memory":
            return cls(MemoryStore(), uri or "memory://")
        raise CallerError.about("store", uri, "s3://bucket, gs://bucket, file:///folder or memory://", "Give its URI.")

    @property
    def is_object_store(self) -> bool:
        """Whether requests cost money and tens of milliseconds."""
        return self.uri.startswith(("s3://", "gs://"))

    def uri_of(self, name: str) -> str:
        """The full URI of a name."""
        return f"{self.uri}/{name}"

    # ---- whole objects ------------------------------------------------------------------------------------------

    def get(self, name: str) -> bytes:
        """An object's bytes.

        Raises:
            StoreMissingError: It is not there.
        """
        return self._read(name, "GET", lambda: bytes(obstore.get(self._backend, name).bytes()))

    def find(self, name: str) -> bytes | None:
        """An object's bytes, or None when it is not there."""
        try:
            return self.get(name)
        except StoreMissingError:
            return None

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """``length`` bytes from ``start`` (less at the object's end)."""
        return self._bounded(
            "GET", name, lambda: bytes(obstore.get_range(self._backend, name, start=start, length=length))
        )

    def put(self, name: str, data: bytes) -> None:
        """Write an object, whatever was there."""
        self._bounded("PUT", name, lambda: obstore.put(self._backend, name, data, use_multipart=False))

    def exists(self, name: str) -> bool:
        """Whether an object is there."""
        return self.size(name) is not None

    def size(self, name: str) -> int | None:
        """An object's bytes, counted; None when it is not there."""
        try:
            return int(self._read(name, "HEAD", lambda: obstore.head(self._backend, name))["size"])
        except StoreMissingError:
            return None

    def create(self, name: str, data: bytes) -> Created:
        """Write an object only if nothing is there, and know for certain whose content stands.

        "Already exists" does not mean that somebody else was first. Our own write may have won and its reply been
        lost, and a 409 is sent with no object written at all
        (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html). So the object is read back:
        absent, the create is made again; equal to ``data``, it is ours. Contents must therefore tell writers apart.

        Raises:
            StoreError: No certain answer within the bounds.
            CallerError: The store has no conditional create.
        """
        for pause in (*_PAUSES, None):
            try:
                self._bounded("PUT", name, lambda: obstore.put(self._backend, name, data, mode="create"))
                return Created(True, data)
            except AlreadyExistsError:
                settled = self._read_back(name, data)
            if settled is not None:
                return settled
            if pause is not None:
                time.sleep(pause * random.uniform(0.5, 1.5))
        raise StoreError(f"{self.uri_of(name)}: the store says that it exists and does not show it.")

    def _read_back(self, name: str, data: bytes) -> Created | None:
        """Whose content stands after "already exists"; None when nothing does."""
        content = self.find(name)
        return None if content is None else Created(content == data, content)

    # ---- listings -----------------------------------------------------------------------------------------------

    def list(self, prefix: str, offset: str | None = None) -> Iterator[str]:
        """Names under a prefix (a folder), in the store's order, as they arrive.

        Args:
            prefix: A folder, with or without its trailing slash; empty for everything.
            offset: Only names after this one.
        """
        for entry in self.entries(prefix, offset):
            yield entry.name

    def entries(self, prefix: str, offset: str | None = None) -> Iterator[Entry]:
        """The same with each object's size and time."""
        folder = prefix.rstrip("/") or None
        if not self.is_object_store:
            yield from self._bounded("LIST", prefix, lambda: list(self._pages(folder, offset)))
            return
        last, failures = offset, 0
        while True:
            try:
                for entry in self._pages(folder, last):
                    last = entry.name
                    yield entry
                return
            except BaseException as error:
                failure = translated(as_exception(error), "LIST", self.uri_of(prefix))
                failures += 1
                if type(failure) is not StoreError or failures > len(_PAUSES):
                    raise failure from error
                time.sleep(_PAUSES[failures - 1])

    def page(self, prefix: str, offset: str | None = None) -> list[Entry]:
        """The first thousand names under a prefix, by one request; all of them where listing costs nothing."""
        folder = prefix.rstrip("/") or None
        whole = None if not self.is_object_store else PAGE
        return self._bounded("LIST", prefix, lambda: list(islice(self._pages(folder, offset), whole)))

    def _pages(self, folder: str | None, offset: str | None) -> Iterator[Entry]:
        self.listings += 1
        for number, page in enumerate(obstore.list(self._backend, folder, offset=offset, chunk_size=PAGE)):
            self.listings += number > 0
            for entry in page:
                yield Entry(entry["path"], entry["size"], entry["last_modified"].timestamp())

    def folders(self, prefix: str) -> list[str]:
        """Names of the folders directly under a folder, in order; what is in them is not listed."""
        self.listings += 1
        found = self._bounded("LIST", prefix, lambda: obstore.list_with_delimiter(self._backend, prefix.rstrip("/")))
        return sorted(found["common_prefixes"])

    # ---- files --------------------------------------------------------------------------------------------------

    def download(self, name: str, path: Path, stop: Callable[[], bool] = lambda: False, room: int | None = None) -> int:
        """Stream an object into a file, with memory that does not grow with it.

        Args:
            name: The object.
            path: The file, replaced.
            stop: Asked between blocks; true ends the transfer with `InterruptedError`.
            room: Bytes that it may have; None for any number.

        Returns:
            Bytes written.

        Raises:
            StoreMissingError: It is not there.
            OSError: It has more bytes than there is room for, or the disk is full (`errno.ENOSPC`).
        """

        def transfer() -> int:
            written, answer = 0, obstore.get(self._backend, name)
            if room is not None and (size := answer.meta["size"]) > room:
                raise no_room(size, room)
            with path.open("wb") as file:
                for block in answer.stream(min_chunk_size=STREAM_BYTES):
                    if stop():
                        raise InterruptedError(f"the transfer of {name} was stopped")
                    written += file.write(block)
            return written

        return self._bounded("GET", name, transfer)

    def upload(self, path: Path | str, name: str) -> None:
        """Stream a file into an object, in parts when it is large: the bytes that it has when the upload begins.

        Raises:
            OSError: The file cannot be opened.
            ValueError: It is not a plain file.
            StoreError: The store did not take it, or the file changed meanwhile.
        """
        with open_plain(path) as file:
            before = os.fstat(file.fileno())

            def transfer() -> None:
                file.seek(0)
                if before.st_size <= PART_BYTES:
                    obstore.put(self._backend, name, file.read(before.st_size), use_multipart=False)
                else:
                    part = max(PART_BYTES, -(-before.st_size // MAX_PARTS))
                    blocks = _blocks(file, before.st_size)
                    obstore.put(self._backend, name, blocks, chunk_size=part, max_concurrency=4)

            self._bounded("PUT", name, transfer)
            after = os.fstat(file.fileno())
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise StoreError(f"{os.path.basename(path)!r} changed during its upload: something still writes to it.")

    def refusal(self, name: str) -> str | None:
        """Why an object cannot have this name, as a predicate ("is not UTF-8, ..."); None when it can.

        obstore refuses ASCII control characters. S3 and GCS take 1024 bytes of UTF-8
        (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html,
        https://cloud.google.com/storage/docs/objects#naming). On disk obstore first writes ``NAME#1``, so that a file's
        name has two bytes less than the file system's 255, and does not end like that itself.
        """
        try:
            key = len(self.uri_of(name).split("/", 3)[3].encode())
        except UnicodeEncodeError:
            return "is not UTF-8, so it cannot be the name of an object"
        if _CONTROL.search(name):
            return "has a control character, so it cannot be the name of an object"
        if self.is_object_store:
            too_long = f"makes a key of {key} bytes with its prefix; the store takes {KEY_BYTES}"
            return too_long if key > KEY_BYTES else None
        last = name.rpartition("/")[2]
        if (size := len(last.encode())) > FILE_NAME_BYTES:
            return f"is a name of {size} bytes; a store on disk takes {FILE_NAME_BYTES}"
        if _TEMPORARY.search(last):
            return "ends in # and a number; a store on disk keeps such names for itself"
        return None

    # ---- bounds -------------------------------------------------------------------------------------------------

    def _read(self, name: str, verb: str, call: Callable[[], T]) -> T:
        """A bounded call that reads an object which may not be there.

        S3 answers 403 instead of 404 for what is absent when the caller may not list the whole bucket
        (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html, "Permissions"); a role that may list only
        some prefixes is such a caller. So after a refusal the folder is listed, which it may.
        """
        try:
            return self._bounded(verb, name, call)
        except StoreDeniedError:
            if self.is_object_store and not self._is_listed(name):
                raise StoreMissingError(f"{self.uri_of(name)} does not exist.") from None
            raise

    def _is_listed(self, name: str) -> bool:
        """Whether a listing shows a name; true when there is no telling."""
        folder, _, _ = name.rpartition("/")
        try:
            return name in takewhile(lambda found: found <= name, self.list(folder, offset=name[:-1]))
        except StoreError:
            return True

    def _bounded(self, verb: str, name: str, call: Callable[[], T]) -> T:
        """Make a call, again after a failure that may pass, within bounds."""
        for pause in (*_PAUSES, None):
            try:
                return call()
            except AlreadyExistsError:
                raise
            except BaseException as error:
                failure = translated(as_exception(error), verb, self.uri_of(name))
                if type(failure) is not StoreError or pause is None:
                    try:
                        raise failure from error
                    finally:
                        # Its traceback holds this frame and those of all callers: it must not be held by the frame.
                        del failure
            time.sleep(pause * random.uniform(0.5, 1.5))
        raise AssertionError("unreachable")


def no_room(size: int, room: int) -> OSError:
    """The error of a full disk, before it is full."""
    return OSError(errno.ENOSPC, f"{size / 2**20:.0f} MiB are needed, {max(0, room) / 2**20:.0f} MiB are free")


def open_plain(path: Path | str) -> BinaryIO:
    """Open a plain file to read it. To open anything else may wait for ever (a FIFO) or never end (a device).

    Raises:
        OSError: It cannot be opened.
        ValueError: It is not a plain file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("not a plain file")
    return open(descriptor, "rb", buffering=0)


def _blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The first bytes of a file, a part at a time."""
    while size > 0 and (block := file.read(min(size, PART_BYTES))):
        size -= len(block)
        yield block


class Stores:
    """Stores of any URI, each bucket opened once: for items and outputs outside the job store.

    Args:
        home: The job store, used for URIs under it.
        region: AWS region of the buckets.
    """

    def __init__(self, home: Store | None = None, region: str | None = None, user_login: bool = False) -> None:
        self._home, self._region, self._user_login = home, region, user_login
        self._open: dict[str, Store] = {}

    def locate(self, uri: str) -> tuple[Store, str]:
        """The store and the name in it that a URI stands for.

        Raises:
            CallerError: No such scheme.
        """
        if self._home and uri.startswith(self._home.uri + "/"):
            return self._home, uri[len(self._home.uri) + 1 :]
        scheme, _, rest = uri.partition("://")
        if scheme not in ("s3", "gs", "file"):
            raise CallerError.about("uri", uri, "an s3://, gs:// or file:// URI, or a path", "Give such a URI.")
        bucket, _, name = rest.partition("/")
        if scheme != "file" and not _BUCKET.match(bucket):
            allowed = f"{scheme}://bucket/name, with a bucket of letters, digits, '.', '_', ':' and '-'"
            raise CallerError.about("uri", uri, allowed, "Fill in the bucket.")
        root = "file:///" if scheme == "file" else f"{scheme}://{bucket}"
        if root not in self._open:
            self._open[root] = Store.open(root, region=self._region, user_login=self._user_login)
        return self._open[root], unquote(name) if scheme == "file" else name
