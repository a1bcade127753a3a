"""Items that are files of this machine: sent, and replaced by the URIs of their objects."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import tee

from tidemill.client.items.local_files import LocalFile, look, path_of
from tidemill.client.items.source import Block, batches
from tidemill.client.items.spool import Spool
from tidemill.client.upload.sender import StoredFile
from tidemill.client.upload.session import UploadSession
from tidemill.job import Item

PATH = "path"
"""The key of an item's metadata that holds its path as the submitter knows it: below the folder that was given, or as
it was typed. It is there only where the path is more than the last part of the object's name, and never in place of a
key of the submitter's own."""


class LocalItems:
    """The items of a job, with files of this machine among them. It is a source of items: reading it sends the files
    and yields their objects. Every file is looked at, and counted, when it is made.

    Args:
        session: Sends them.
        spool: The items as the caller gave them.
        folder: The folder that they were found in; None where they were named one by one.

    Raises:
        CallerError: A file that cannot be sent.
    """

    label = "items"

    def __init__(self, session: UploadSession, spool: Spool, folder: str | None) -> None:
        self._session, self._spool, self._folder = session, spool, folder
        self._root = None if folder is None else os.path.realpath(folder)
        session.count(map(self._file, spool.items()), spool.count)

    def where(self, place: int) -> str:
        return f"{self.label}[{place}]"

    def _file(self, item: Item) -> LocalFile | None:
        """The file that an item is; None for an object."""
        path = path_of(item.uri)
        return None if path is None else look(path, self._root)

    def __iter__(self) -> Iterator[Block]:
        ours, theirs = tee(self._spool.items())
        sent = self._session.send(map(self._file, theirs))
        items = (self._replaced(item, one) for item, one in zip(ours, sent, strict=True))
        for batch, places in batches(items):
            yield Block([item.uri for item in batch], places, [item.meta for item in batch])

    def _replaced(self, item: Item, sent: StoredFile | None) -> Item:
        if sent is None:
            return item
        path = item.uri if self._folder is None else os.path.relpath(sent.file.path, self._folder)
        meta = item.meta if path == sent.file.name else {PATH: path, **(item.meta or {})}
        return Item(item.index, self._session.site.store.uri_of(sent.name), meta)
