"""`job://JOB/output` and `job://JOB/state`: what another job of the store has left, as items and inputs of this one.

`job://tiles/output/3` is what item 3 has written, `job://tiles/output/3/mask.png` one file of it, and `job://tiles/output`
what all items have written. A client writes full ids in place of names. Workers resolve the rest when they fetch: the
outcome that counts is known only when the other job is complete.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple, TypeVar

from tidemill.errors import CallerError, DamagedError, StoreMissingError, shown
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Outcome, Round
from tidemill.store import Store, Stores
from tidemill.tree import Tree, TreeFile

T = TypeVar("T")
SCHEME = "job://"
MAX_FILES = 200_000
"""Files of one such folder."""
_URI = re.compile(
    r"job://(?P<job>[a-z][a-z0-9-]{0,49})/(?P<kind>output|state)(?:/(?P<item>\d{1,9}|\*)(?:/(?P<path>.+))?)?/?$"
)
_ALLOWED = "job://JOB/output or job://JOB/state, then /ITEM for an item's index, then /PATH for a file of it"


@dataclass(frozen=True)
class JobUri:
    """A reference to what a job has left.

    Attributes:
        job: Its id or, as a caller may write it, its name.
        kind: What its items have written, or their state folders.
        item: An item's index; None for all of them together, `*` for each of them.
        path: A file or folder of an item; empty for everything.
    """

    job: str
    kind: Literal["output", "state"]
    item: int | Literal["*"] | None = None
    path: str = ""

    def __str__(self) -> str:
        parts = [
            self.job,
            self.kind,
            *([] if self.item is None else [str(self.item)]),
            *([self.path] * bool(self.path)),
        ]
        return SCHEME + "/".join(parts)


class Files(NamedTuple):
    """The files of a reference.

    Attributes:
        store: Where their objects are.
        tree: Their paths and objects.
        single: Whether the reference names one file, and not a folder.
    """

    store: Store
    tree: Tree
    single: bool


def parse(uri: str, what: str = "items") -> JobUri:
    """A reference from its text.

    Raises:
        CallerError: It is none.
    """
    match = _URI.match(uri)
    path = match["path"] if match else None
    if match is None or any(part in ("", ".", "..") for part in (path or "x").split("/")):
        raise CallerError.about(what, uri, _ALLOWED, "Correct it; `tidemill jobs` shows the names.")
    item = match["item"]
    index = item if item in (None, "*") else int(item)
    return JobUri(match["job"], match["kind"], index, path or "")  # type: ignore[arg-type]


class _OtherJob(NamedTuple):
    ledger: Ledger
    spec: JobSpec
    rounds: list[Round]


class JobFiles:
    """Looks up what other jobs have left. What was read of a job is kept for its reader.

    Args:
        stores: The job store, and any other that an output may be in.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._other = lru_cache(16)(self._read)
        self._chunk = lru_cache(64)(self._merged)

    def find(self, uri: str, reader: str = "") -> Files:
        """The files of a reference, without their bytes.

        Args:
            uri: The reference.
            reader: Who reads: a round of a job. The other job may run again between two of them, and a worker on GCP
                serves many.

        Raises:
            StoreMissingError: The job has left nothing there, or is not in the store any more.
            DamagedError: There are too many files.
            CallerError: It is not a reference.
        """
        wanted = parse(uri)
        other = self._other(wanted.job, reader)
        spec = other.spec
        items = range(spec.items_total) if wanted.item in (None, "*") else [int(wanted.item)]
        if items[-1] >= spec.items_total:
            raise StoreMissingError(f"{wanted.job} has no item {items[-1]}: it has {spec.items_total}.")
        if wanted.kind == "state":
            store, files = self._stores.home, self._states(other, items)
        elif len(items) == 1:
            store, files = self._output(other, items[0], reader)
        else:
            store, files = self._outputs(other.ledger, spec, uri)
        outputs = list(_limited(files, uri))
        if not outputs:
            raise StoreMissingError(f"{uri}: the job has left nothing there.")
        return _below(store, outputs, wanted, uri)

    def _read(self, job: str, _reader: str) -> _OtherJob:
        try:
            spec = Ledger(self._stores.home, job).spec()
        except StoreMissingError:
            raise StoreMissingError(f"{job} is not in the store any more.") from None
        ledger = Ledger(self._stores.home, job, spec.manifest)
        return _OtherJob(ledger, spec, ledger.rounds())

    def _merged(self, job: str, reader: str, chunk: int) -> dict[int, Outcome]:
        other = self._other(job, reader)
        numbers = [round_.round for round_ in other.rounds if round_.has(chunk)]
        return {outcome.index: outcome for outcome in other.ledger.merged(chunk, numbers)}

    def _output(self, other: _OtherJob, item: int, reader: str) -> tuple[Store, Iterator[TreeFile]]:
        job = other.spec.job
        outcome = self._chunk(job, reader, other.ledger.index().chunk_of(item)).get(item)
        if outcome is None:
            raise StoreMissingError(f"item {item} of {job} has no outcome.")
        if outcome.status == "failed":
            raise StoreMissingError(f"item {item} of {job} failed ({outcome.reason}), so it has no output.")
        if outcome.output is None:
            raise StoreMissingError(f"item {item} of {job} has written no file.")
        store, prefix = self._stores.locate(outcome.output)
        skip = len(prefix.rstrip("/")) + 1
        return store, (TreeFile(e.name[skip:], e.size, None, e.name) for e in store.entries(prefix.rstrip("/")))

    def _outputs(self, ledger: Ledger, spec: JobSpec, uri: str) -> tuple[Store, Iterator[TreeFile]]:
        """The outputs of all items that succeeded, each in a folder named by its index: one listing for all that a job
        has computed."""
        store, _ = self._stores.locate(f"{spec.output_prefix(self._stores.home.uri)}/")
        # By folder of a job: folders in there, of the item and of the attempt whose outcome counts, and which items
        # have them. Each has a file at least.
        folders: dict[str, dict[tuple[str, str], list[int]]] = {}
        for outcome in _limited((outcome for outcome in ledger.outcomes() if outcome.output), uri):
            folder, item, attempt = str(outcome.output).rstrip("/").rsplit("/", 2)
            folders.setdefault(folder, {}).setdefault((item, attempt), []).append(outcome.index)

        def files() -> Iterator[TreeFile]:
            for folder, winners in folders.items():
                base = self._stores.locate(f"{folder}/")[1].rstrip("/")
                for entry in store.entries(base):
                    item, _, rest = entry.name[len(base) + 1 :].partition("/")
                    attempt, _, path = rest.partition("/")
                    for index in winners.get((item, attempt), ()) if path else ():
                        yield TreeFile(f"{index}/{path}", entry.size, None, entry.name)

        return store, files()

    def _states(self, other: _OtherJob, items: range | list[int]) -> Iterator[TreeFile]:
        from tidemill.state.snapshots import Snapshots

        for item in items:
            snapshot = Snapshots(self._stores.home, other.spec.job, item).newest()
            if snapshot is None and (origin := other.ledger.origin(item)):
                snapshot = Snapshots(self._stores.home, *origin).newest()
            for file in snapshot.tree.files if snapshot else ():
                yield file if len(items) == 1 else replace(file, path=f"{item}/{file.path}")


def _limited(files: Iterator[T], uri: str) -> Iterator[T]:
    for count, file in enumerate(files):
        if count >= MAX_FILES:
            raise DamagedError(f"{uri} has more than {MAX_FILES} files. Give them as items: {uri}")
        yield file


def _below(store: Store, files: list[TreeFile], wanted: JobUri, uri: str) -> Files:
    if not wanted.path:
        return Files(store, Tree(tuple(files)), single=False)
    if one := [file for file in files if file.path == wanted.path]:
        return Files(store, Tree((replace(one[0], path=wanted.path.rpartition("/")[2]),)), single=True)
    inside = f"{wanted.path}/"
    below = [replace(file, path=file.path[len(inside) :]) for file in files if file.path.startswith(inside)]
    if not below:
        near = ", ".join(shown(path) for path in sorted(file.path for file in files)[:5])
        raise StoreMissingError(f"{uri} does not exist; item {wanted.item} of {wanted.job} has {near}.")
    return Files(store, Tree(tuple(below)), single=False)
