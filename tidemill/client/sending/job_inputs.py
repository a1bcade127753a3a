"""A job's items and named inputs: read and checked, then brought into the store where they are of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidemill.chain import SCHEME
from tidemill.client.items.fetch_rules import FetchRules
from tidemill.client.items.folders import ItemFolder, StorePrefix
from tidemill.client.items.open_items import open_items
from tidemill.client.items.order import weigher
from tidemill.client.items.public_buckets import PublicBuckets
from tidemill.client.items.source import ItemSource
from tidemill.client.items.spool import Spool
from tidemill.client.items.values import ItemValues
from tidemill.client.rounds.job_uris import FullIds, References, items_of
from tidemill.client.site import Log, Site
from tidemill.client.upload.inputs import LocalInput, open_input
from tidemill.client.upload.items import LocalItems
from tidemill.client.upload.meter import Watch
from tidemill.client.upload.session import Amount, UploadSession
from tidemill.errors import CallerError, StoreError, StoreMissingError
from tidemill.figures import counted, file_size
from tidemill.job import JobSpec, spec_version
from tidemill.layout import uploaded
from tidemill.request import JobRequest
from tidemill.store import refusal

GIB = 2**30


@dataclass(frozen=True)
class GivenItems:
    """A job's items, as they were given.

    Attributes:
        spool: The items.
        folder: Where there are files of this machine to upload among them: the folder that they were found in, which
            is empty where they were named one by one. None where there are none.
        values: Their source, where they are values: files of it live as long as it does.
        public: Buckets that the job reads as the public sees them, as `s3://bucket`.
    """

    spool: Spool
    folder: str | None
    values: ItemValues | None = None
    public: Sequence[str] = ()

    def read_as_public(self, draft: JobSpec) -> JobSpec:
        """A draft that names the public buckets of S3. Those of Cloud Storage need no word: signed reads reach them."""
        buckets = [bucket for bucket in self.public if bucket.startswith("s3://")]
        version = max(draft.spec_version, spec_version({"public": buckets}))
        return draft.model_copy(update={"public": buckets, "spec_version": version})


def gather(
    site: Site, request: JobRequest, draft: JobSpec, references: References, *, takes_input: bool | None = None
) -> GivenItems:
    """Read and check a job's items.

    Args:
        site: Where the job goes.
        request: The job with them.
        draft: The job without them.
        references: Looks other jobs up.
        takes_input: Whether the job's function has items fetched; None if that is not known, or there is none.

    Raises:
        CallerError: An item that cannot be one, or that the machines surely cannot fetch.
    """
    source, log = _opened(site, request, references), request.log
    files = site.store.uri.startswith("file://")
    readable = (*site.descriptor.readable_prefixes, SCHEME)
    staged = draft.stages_input or bool(takes_input)
    public = PublicBuckets(site)
    fetched = FetchRules(site.descriptor.cloud, files, readable, public.reads) if staged else None
    weigh = None if request.longest_first is None else weigher(request.longest_first, site.store)
    sent = isinstance(source, ItemFolder) and not files
    refused = (lambda path: refusal(site.store, uploaded("0" * 64, os.path.basename(path)))) if sent else None
    spool = Spool(fetched, weigh, refused).fill(source)
    repeated, example = spool.duplicates()
    if repeated:
        are, copy = ("is a duplicate", "the copy") if repeated == 1 else ("are duplicates", "each copy")
        log(f"{counted(repeated, 'item')} {are} (e.g. {example}); {copy} runs.")
    if isinstance(source, (ItemFolder, StorePrefix)) and (note := source.hiding.note()):
        log(note)
    if isinstance(source, ItemValues):
        return GivenItems(spool, source.folder or None, source)
    if not files and isinstance(source, ItemFolder):
        return GivenItems(spool, str(source.folder))
    if not files and staged:
        if not isinstance(source, StorePrefix):
            _look_at_some(site, spool.sample, draft, log)
        for bucket in public.names:
            log(f"{bucket} is not in tidemill:data.read: the job reads it as the public sees it.")
        return GivenItems(spool, None if spool.objects else "", public=public.names)
    if not files and "://" not in spool.first and os.path.exists(spool.first):
        log(_stays_here(spool.first, draft.function, takes_input))
    return GivenItems(spool, None)


def _stays_here(item: str, function: str | None, takes_input: bool | None) -> str:
    """Remark on an item that is a path of this machine, and that machines get as a name.

    Raises:
        CallerError: A function gets a relative path, which leads nowhere on a machine.
    """
    if function is None:
        return f"{item} is a file of this machine, and stays here: only {{input}} or a folder as `items` uploads."
    if takes_input is False and os.path.isfile(item) and not os.path.isabs(item):
        raise CallerError(
            f"items: {item!r} is a file of this machine, and {function} gets only its name.",
            "Name a parameter of it `input`: then the file is uploaded, and `input` is the path of its copy. Or give "
            "the folder as the items: its files are uploaded, and the function gets their URIs.",
            what="items",
            value=item,
        )
    return f"{item} is a file of this machine, and stays here: only for a parameter named `input` is it uploaded."


def _opened(site: Site, request: JobRequest, references: References) -> ItemSource:
    items = request.items
    if isinstance(items, str) and items.startswith(SCHEME):
        return items_of(items, references)
    source = open_items(items, form=request.items_format, column=request.items_column, stores=site.stores())
    return source if isinstance(source, (ItemFolder, StorePrefix, ItemValues)) else FullIds(source, references)


# ---- objects -------------------------------------------------------------------------------------------------------


def _look_at_some(site: Site, uris: Iterable[str], draft: JobSpec, log: Log) -> None:
    """Look at a few of the items, where the caller may.

    Raises:
        CallerError: None of them is there.
    """
    if not site.store.is_object_store:
        return
    some = [uri for uri in dict.fromkeys(uris) if uri.startswith(("s3://", "gs://"))]
    stores = site.stores()

    def size(uri: str) -> int | None:
        """Bytes, or None for what is not there; -1 where that cannot be told."""
        try:
            store, name = stores.locate(uri)
            return store.size(name)
        except StoreMissingError:
            return None
        except StoreError:
            return -1

    with ThreadPoolExecutor(max(1, len(some))) as pool:
        sizes = dict(zip(some, pool.map(size, some), strict=True))
    missing = [uri for uri, amount in sizes.items() if amount is None]
    if missing and len(missing) == len(some):
        others = f", nor does any of the {len(some) - 1} others that were checked" if len(some) > 2 else ""
        raise CallerError(f"items: {missing[0]!r} does not exist{others}.", "Correct the list.", what="items")
    if missing:
        log(f"{len(missing)} of {len(some)} items that were looked at do not exist, such as {missing[0]}.")
    room = site.descriptor.queues[draft.queue].scratch_gib * GIB
    for uri, amount in sizes.items():
        if amount is not None and amount > room:
            log(f"{uri} has {file_size(amount)}, and a machine of the queue has {file_size(room)} of scratch.")


# ---- files of this machine -----------------------------------------------------------------------------------------


class JobUploads:
    """Uploads of a job from this machine. See `uploads`.

    Attributes:
        amount: How much there is to send.
    """

    def __init__(
        self, session: UploadSession, spool: Spool, items: LocalItems | None, inputs: Mapping[str, LocalInput | str]
    ) -> None:
        self._session, self._spool, self._items, self._inputs = session, spool, items, inputs

    @property
    def amount(self) -> Amount:
        return self._session.amount

    def send(self, watch: Watch) -> tuple[Spool, dict[str, str]]:
        """Send it; returns the items and the named inputs, with the objects of what was sent."""
        with self._session.watched(watch):
            inputs = {name: one if isinstance(one, str) else one.send() for name, one in self._inputs.items()}
            return self._spool if self._items is None else Spool(None).fill(self._items), inputs


@contextmanager
def uploads(site: Site, gathered: GivenItems, inputs: Mapping[str, str | Path], lasts: float) -> Iterator[JobUploads]:
    """Look at the files of this machine among a job's items and named inputs. Nothing is sent before `JobUploads.send`.
    An attempt of the job may take so many seconds.

    Raises:
        CallerError: A file that cannot be sent, or an input that is not there or that machines cannot read.
    """
    session = UploadSession(site, lasts)
    try:
        folder = gathered.folder
        items = None if folder is None else LocalItems(session, gathered.spool, folder or None)
        opened = {name: open_input(session, name, value) for name, value in inputs.items()}
        yield JobUploads(session, gathered.spool, items, opened)
    finally:
        session.close()
