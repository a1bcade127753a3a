"""All uploads of a submit together: their amount, and their way into the store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidemill.client.items.local_files import LocalFile
from tidemill.client.items.source import WrongItems, wrong_items
from tidemill.client.site import Site, login_advice
from tidemill.client.upload.meter import Meter, Watch
from tidemill.client.upload.sender import Sender, StoredFile
from tidemill.errors import StoreDeniedError
from tidemill.figures import counted, file_size
from tidemill.store import refusal

ASK_BYTES = 1024**3
ASK_FILES = 10_000
"""More than this is not sent without a question."""


@dataclass(frozen=True)
class Amount:
    """Amount of an upload.

    Attributes:
        files: How many, as far as that is known: files that were not read before may be in the store already.
        bytes: Of these files together.
        there: Further files, which are in the store already.
    """

    files: int = 0
    bytes: int = 0
    there: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.files + other.files, self.bytes + other.bytes, self.there + other.there)

    @property
    def large(self) -> bool:
        """True if it is too much to send without a question."""
        return self.bytes > ASK_BYTES or self.files > ASK_FILES

    def words(self) -> str:
        """`12 files (3.4 MiB); 5 more are in the store`."""
        rest = f"; {self.there} more are in the store" if self.there else ""
        return f"{counted(self.files, 'file')} ({file_size(self.bytes)}){rest}"


class UploadSession:
    """Counts files, then sends them. What the store has and what is known of this machine's files is read once.

    Args:
        site: Where to.
        lasts: Seconds that an attempt of the job may take.
    """

    def __init__(self, site: Site, lasts: float) -> None:
        # SQLite takes a megabyte, and most submits upload nothing.
        from tidemill.client.upload.hashes import Hashes
        from tidemill.client.upload.inventory import Inventory

        self.site = site
        self._hashes = Hashes()
        self._inventory = Inventory(site.store, site.descriptor.expire_jobs_after_days, lasts, site.account.now())
        self.amount = Amount()
        """Of everything that was counted."""
        self._meter = Meter(0, 0)

    def close(self) -> None:
        self._hashes.close()
        self._inventory.close()

    def count(self, files: Iterable[LocalFile | None], most: int) -> None:
        """Add files to what there is to send, at most so many per call. None of them is read.

        Raises:
            CallerError: A name that no object can have.
        """
        if not self._inventory.listed:
            self._inventory.load(most)
        to_send = size = there = 0
        wrong = WrongItems()
        for file in files:
            if file is None:
                continue
            if reason := refusal(self.site.store, StoredFile(file, "0" * 64).name):
                wrong.add(wrong_items(f"{file.path!r} {reason}.", "Rename it."))
                continue
            sha256 = self._hashes.find(file) if self._inventory.listed else None
            if sha256 and self._inventory.has(StoredFile(file, sha256).name):
                there += 1
            else:
                to_send, size = to_send + 1, size + file.size
        wrong.check()
        self.amount += Amount(to_send, size, there)

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[None]:
        """Show what is sent in this block."""
        self._meter = Meter(self.amount.files, self.amount.bytes)
        with watch(self._meter):
            try:
                yield
            except StoreDeniedError as error:
                raise self._denied(error) from error

    def send(self, files: Iterable[LocalFile | None]) -> Iterator[StoredFile | None]:
        """Files once they are in the store; see `Sender.send`."""
        return Sender(self.site.store, self._inventory, self._hashes, self._meter).send(files)

    def put_tree(self, name: str, content: bytes) -> None:
        """Write the description of a folder, unless the store has it."""
        if self._inventory.claim(name):
            self.site.store.put(name, content)

    def _denied(self, error: StoreDeniedError) -> StoreDeniedError:
        advice = f"{login_advice(error)} What is uploaded stays; the same command sends the rest."
        return StoreDeniedError(f"{error.problem.rstrip('.')}.", advice, code=error.code, what="items")
