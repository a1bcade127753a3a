"""Items that are files of this machine: counted, confirmed, sent, and replaced by the URIs of their objects."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, tee

from tidemill.client.item_source import BLOCK_ITEMS, Block
from tidemill.client.site import Site, login_advice
from tidemill.client.spool import Spool
from tidemill.client.upload.files import LocalFile, look, path_of
from tidemill.client.upload.hashes import Hashes
from tidemill.client.upload.inventory import Inventory
from tidemill.client.upload.meter import Meter, Watch
from tidemill.client.upload.sender import Brought, Sender
from tidemill.errors import CallerError, StoreDeniedError, shown
from tidemill.figures import counted, file_size
from tidemill.job import Item
from tidemill.store import refusal

PATH = "path"
"""The key of an item's metadata that holds its path as the submitter knows it: below the folder that was given, or as
it was typed. It is there only where the path is more than the last part of the object's name, and never in place of a
key of the submitter's own."""
ASK_BYTES = 1024**3
ASK_FILES = 10_000
"""More than this is not sent without a question."""


@dataclass(frozen=True)
class Amount:
    """What an upload has to send.

    Attributes:
        files: How many, as far as that is known: files that were not read before may be in the store already.
        bytes: Of these files together.
        there: Further files, which are in the store already.
    """

    files: int = 0
    bytes: int = 0
    there: int = 0

    @property
    def large(self) -> bool:
        """Whether it is too much to send without a question."""
        return self.bytes > ASK_BYTES or self.files > ASK_FILES

    def words(self) -> str:
        """`12 files (3.4 MiB); 5 more are in the store`."""
        rest = f"; {self.there} more are in the store" if self.there else ""
        return f"{counted(self.files, 'file')} ({file_size(self.bytes)}){rest}"


class LocalItems:
    """The items of a job, some of which are files of this machine. It is a source of items: reading it sends the files
    and yields their objects.

    Args:
        site: Where they are sent.
        spool: The items as the caller gave them.
        folder: The folder that they were found in; None where they were named one by one.
        watch: Shows the upload.
    """

    label = "items"

    def __init__(self, site: Site, spool: Spool, folder: str | None, watch: Watch) -> None:
        self._site, self._spool, self._folder, self._watch = site, spool, folder, watch
        self._root = None if folder is None else os.path.realpath(folder)
        self._hashes = Hashes()
        self._inventory = Inventory(site.store, site.descriptor.expire_jobs_after_days)
        self.amount = self._count()

    def where(self, place: int) -> str:
        return f"{self.label}[{place}]"

    def close(self) -> None:
        self._hashes.close()
        self._inventory.close()

    def _count(self) -> Amount:
        """What is to be sent. Every file is looked at, before anything is sent.

        Raises:
            CallerError: A file that cannot be sent.
        """
        self._inventory.load(self._spool.count)
        files = size = there = 0
        for item in self._spool.items():
            if file := self._file(item):
                known = self._hashes.find(file) if self._inventory.listed else None
                if known and self._inventory.has(Brought(file, known).name):
                    there += 1
                else:
                    files, size = files + 1, size + file.size
        return Amount(files, size, there)

    def _file(self, item: Item) -> LocalFile | None:
        """The file that an item is; None for an object."""
        path = path_of(item.uri)
        if path is None:
            return None
        file = look(path, self._root)
        if reason := refusal(self._site.store, Brought(file, "0" * 64).name):
            raise CallerError(f"{shown(path)} {reason}.", "Rename it.", what="items")
        return file

    def __iter__(self) -> Iterator[Block]:
        meter = Meter(self.amount.files, self.amount.bytes)
        ours, theirs = tee(self._spool.items())
        sent = Sender(self._site.store, self._inventory, self._hashes, meter).send(map(self._file, theirs))
        with self._watch(meter):
            try:
                items = (self._replaced(item, one) for item, one in zip(ours, sent, strict=True))
                start = 0
                while batch := list(islice(items, BLOCK_ITEMS)):
                    places = range(start, start + len(batch))
                    yield Block([item.uri for item in batch], places, [item.meta for item in batch])
                    start += len(batch)
            except StoreDeniedError as error:
                raise self._denied(error) from error

    def _replaced(self, item: Item, sent: Brought | None) -> Item:
        if sent is None:
            return item
        path = item.uri if self._folder is None else os.path.relpath(sent.file.path, self._folder)
        meta = item.meta if path == sent.file.name else {PATH: path, **(item.meta or {})}
        return Item(item.index, self._site.store.uri_of(sent.name), meta)

    def _denied(self, error: StoreDeniedError) -> StoreDeniedError:
        old = self._site.descriptor.readable is None
        advice = "Ask the stack's owner to run `pulumi up` with this version." if old else login_advice(error)
        again = "What is uploaded stays; the same command sends the rest."
        return StoreDeniedError(f"{error.problem.rstrip('.')}.", f"{advice} {again}", code=error.code, what="items")
