"""Data comes and goes by itself: an item's input as a local file, its outputs as objects under the attempt's prefix.

A file of this machine is linked and never copied (ADR 127).
"""

from __future__ import annotations

import os
import re
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from tidemill.chain import SCHEME, JobFiles
from tidemill.errors import shown
from tidemill.store import Store, Stores, UploadResult, open_plain, refusal
from tidemill.tree import fetch_tree
from tidemill.worker.items.outputs import output_files
from tidemill.worker.machine.scratch import Scratch, empty_folder
from tidemill.worker.machine.stop import Stop
from tidemill.worker.programs.faults import ItemError, item_step

SPARE_BYTES = 64 * 1024 * 1024
"""Bytes left free on the scratch volume: other containers of the machine share it."""
_TRANSFERS = 4
_MOST_AHEAD = 8
_AHEAD_BYTES = 256 * 1024 * 1024
"""Bytes that inputs may take on the scratch volume before they are needed, besides one for each slot: those of the
items that a slot has taken, and as many of the next ones."""
_WAITING = 4 * _TRANSFERS
"""Uploads of an item that are begun ahead: their number, not that of its files, decides what memory they take."""


class Outputs(NamedTuple):
    """An item's files that are to be uploaded.

    Attributes:
        folder: The output folder.
        prefix: URI that it goes to, with a trailing slash.
        files: How many files there are; links to files count too.
        bytes: Their size.
        only: The path and the name of the file, if there is one.
    """

    folder: Path
    prefix: str
    files: int
    bytes: int
    only: tuple[str, str] | None = None


class Staging:
    """Moves inputs and outputs, a few at a time."""

    def __init__(self, stores: Stores, scratch: Scratch) -> None:
        self.stores, self._scratch = stores, scratch
        self._jobs = JobFiles(stores)
        self._largest = 0
        """Bytes of the largest input so far."""
        self._pool = ThreadPoolExecutor(_TRANSFERS, thread_name_prefix="staging")

    def fetch(self, uri: str, folder: Path, stop: Stop, reader: str) -> Future[Path]:
        """Begin to fetch an item into a folder, under its own name. The future has the file or a link to it, or an
        `ItemError`.

        Args:
            uri: ``s3://``, ``gs://``, ``file://`` or ``job://``, or a path on this machine.
            folder: Where the file goes, which is emptied; for what another job has left, the folder with its files.
            stop: Ends this transfer.
            reader: Who reads (`task.reader`).
        """
        return self._pool.submit(self._fetch, uri, reader, folder, stop)

    def _fetch(self, uri: str, reader: str, folder: Path, stop: Stop) -> Path:
        with item_step("input", f"{uri} cannot be fetched", self.stores.job_store):
            empty_folder(folder, self._scratch.folder)
            target = folder / file_name(uri)
            if uri.startswith(SCHEME):
                return self._bring(uri, reader, target, stop)
            if "://" not in uri or uri.startswith("file://"):
                self._link(_local_path(uri), target)
            else:
                self._download(uri, target, stop)
            self._largest = max(self._largest, os.lstat(target).st_size)
        return target

    def _bring(self, uri: str, reader: str, target: Path, stop: Stop) -> Path:
        """Fetch what another job has left: a folder, or one file of it."""
        files = self._jobs.find(uri, reader)
        self._largest = max(self._largest, files.tree.size)
        if files.single:
            [file] = files.tree.files
            files.store.download(file.object, target, lambda: stop.raised, self.room())
        else:
            fetch_tree(files.store, files.tree, target, stop=lambda: stop.raised, room=self.room())
        return target

    def most_ahead(self, slots: int) -> int:
        """How many inputs per slot may lie here before they are needed, as large as inputs have been so far."""
        return min(_MOST_AHEAD, _AHEAD_BYTES // (2 * slots * max(1, self._largest)))

    def _download(self, uri: str, target: Path, stop: Stop) -> None:
        uri.encode()  # no object has another name
        store, name = self.stores.locate(uri)
        if not name:
            raise ValueError("it names a bucket, not an object")
        store.download(name, target, lambda: stop.raised, self.room())

    def _link(self, source: Path, target: Path) -> None:
        open_plain(source).close()
        target.symlink_to(source.absolute())

    def room(self) -> int:
        """Bytes that may still be put on the scratch volume."""
        return self._scratch.free_bytes() - SPARE_BYTES

    def upload(self, folder: Path, prefix: str) -> int:
        """Upload every file of a folder under a URI with a trailing slash; returns how many. `ItemError` if one is
        missing."""
        outputs = self.look(folder, prefix)
        self.send(outputs)
        return outputs.files

    def look(self, folder: Path, prefix: str) -> Outputs:
        """See what there is to upload, and that all of it can be: every file is checked before any is uploaded."""
        with item_step("output", f"the output cannot be uploaded to {prefix}"):
            store, base = self.stores.locate(prefix)
            files, size, only = 0, 0, None
            with item_step("output", "the output folder cannot be read"):
                # The list is not kept: there may be 100,000 files.
                for path, name in output_files(folder):
                    _check(store, base, name)
                    files, size = files + 1, size + os.stat(path).st_size
                    only = None if files > 1 else (path, name)
        return Outputs(folder, prefix, files, size, only)

    def send(self, outputs: Outputs) -> None:
        """Upload what `look` has seen; `ItemError` if that cannot be."""
        with item_step("output", f"the output cannot be uploaded to {outputs.prefix}", self.stores.job_store):
            store, base = self.stores.locate(outputs.prefix)
            if outputs.only:
                # Most items have one, and handing it to another thread costs as much as a tenth of sending it.
                path, name = outputs.only
                store.upload(path, base + name)
                return
            transfers: deque[Future[UploadResult]] = deque()
            try:
                for path, name in output_files(outputs.folder) if outputs.files else ():
                    if len(transfers) >= _WAITING:
                        transfers.popleft().result()
                    transfers.append(self._pool.submit(store.upload, path, base + name))
                while transfers:
                    transfers.popleft().result()
            finally:
                for transfer in transfers:
                    transfer.cancel()
                wait(transfers)

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def _check(store: Store, base: str, name: str) -> None:
    """A name that the store does not take is the item's failure."""
    reason = refusal(store, base + name)
    if reason is not None:
        raise ItemError("output", f"{shown(name)} {reason}", final=True)


def _local_path(uri: str) -> Path:
    """The path that an item names, by itself or as a ``file://`` URI."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return Path(scheme)
    host, _, path = rest.partition("/")
    if host not in ("", "localhost"):
        raise ValueError(f"it names the host {host!r}; a path begins after three slashes: file:///{rest}")
    return Path("/" + unquote(path))


def file_name(uri: str) -> str:
    """The name that an item's local copy gets: its own, so that programs which look at the ending still can."""
    last = uri.rstrip("/").rsplit("/", 1)[-1]
    return (
        re.sub(r"[\0/]", "_", last).encode("utf-8", "replace")[-200:].decode("utf-8", "ignore").lstrip(".") or "input"
    )
