"""The journal: an empty object per job whose name says when it was submitted, so that a listing finds the newest jobs.

The name also has marks of the job's user, queue and tags, so that a filter reads few specs. It lies under ``jobs/``,
where submitters may write, and expires with the jobs. A job without an entry is found all the same, by its folder: its
submit died in between.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cached_property

from tidemill import layout
from tidemill.errors import CallerError, DamagedError, ObjectNameError, StoreMissingError
from tidemill.job import JOB_PATTERN, NAME_PATTERN, JobSpec
from tidemill.ledger import Ledger
from tidemill.ledger.documents import UnreadableError
from tidemill.store import Store

_PARALLEL = 8
_MARK = 4
"""Letters of a mark: one of 16 million. Of 25 tags they fit into the name of a file."""


@dataclass(frozen=True)
class JournalEntry:
    """An entry: `<time>,<marks>~<job>`. Those of earlier versions have no marks.

    Attributes:
        job: The job's id.
        at: When it was submitted, see `time_of`.
        marks: See `marks_of`; None where the entry does not tell.
    """

    job: str
    at: str
    marks: frozenset[str] | None = None

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.rpartition("-")[0]


def marks_of(user: str | None, queue: str | None, tags: Mapping[str, str]) -> frozenset[str]:
    """A mark of each value that is given. Two values may have the same one."""
    given = {"user": user, "queue": queue} | {f"tag {key}": value for key, value in tags.items()}
    hashes = (hashlib.sha256(f"{key}={value}".encode()) for key, value in given.items() if value is not None)
    return frozenset(urlsafe_b64encode(each.digest())[:_MARK].decode() for each in hashes)


def time_of(at: datetime) -> str:
    """A time as entries have it, and by which they sort."""
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}"


def enter(store: Store, spec: JobSpec) -> None:
    """Write a job down. The same job has the same entry, however often."""
    marks = "".join(sorted(marks_of(spec.user, spec.queue, spec.tags)))
    store.put(f"{layout.JOURNAL}/{time_of(spec.created_at)},{marks}~{spec.job}", b"")


def _parsed(name: str) -> JournalEntry:
    head, _, job = name.rpartition("/")[2].partition("~")
    at, comma, marks = head.partition(",")
    found = frozenset(marks[n : n + _MARK] for n in range(0, len(marks), _MARK))
    return JournalEntry(job, at, found if comma else None)


class Journal:
    """The jobs of a store at one moment: its two listings are read once, when they are needed.

    Args:
        store: The store.
        passed_over: Is told each spec that cannot be read: any job of the team may have written it. None where all
            count, and one that cannot be read ends the listing.
    """

    def __init__(self, store: Store, passed_over: Callable[[str], None] | None = None) -> None:
        self._store, self._passed_over = store, passed_over
        self._read: dict[str, JobSpec] = {}

    def ids(self, name: str = "*") -> set[str]:
        """Ids of the jobs whose names match a shell pattern. Of some, the submit has not come as far as the spec."""
        return self._ids(name, self._folders)

    def newest(self, name: str = "*") -> list[JournalEntry]:
        """The jobs whose names match a shell pattern, newest first. A job without an entry is read."""
        with ThreadPoolExecutor(_PARALLEL) as pool:
            folders = pool.submit(lambda: self._folders)
            known = {entry.job: entry for entry in self._entries or ()}
            ids = self._ids(name, folders.result())
            for spec in filter(None, pool.map(self._spec, ids - known.keys())):
                self._read[spec.job] = spec
                known[spec.job] = JournalEntry(spec.job, time_of(spec.created_at))
        return sorted((known[job] for job in ids & known.keys()), key=lambda each: (each.at, each.job), reverse=True)

    def spec(self, job: str) -> JobSpec | None:
        """A job's spec; None for one that is gone or passed over."""
        return self._read.get(job) or self._spec(job)

    def specs(self, name: str = "*") -> Iterator[JobSpec]:
        """Specs of the jobs whose names match, newest first. One is read only when it is asked for."""
        yield from filter(None, (self.spec(entry.job) for entry in self.newest(name)))

    @cached_property
    def _folders(self) -> list[str] | None:
        names = _listed(lambda: self._store.folders(layout.JOBS))
        return None if names is None else [name.rpartition("/")[2] for name in names]

    @cached_property
    def _entries(self) -> list[JournalEntry] | None:
        names = _listed(lambda: self._store.list(layout.JOURNAL))
        return None if names is None else [_parsed(name) for name in names]

    def _ids(self, name: str, folders: list[str] | None) -> set[str]:
        if folders is None and self._entries is None:
            raise _unlistable(self._store)
        # Where folders cannot be listed, the journal tells which jobs there are.
        there = [entry.job for entry in self._entries or ()] if folders is None else folders
        return {job for job in there if re.fullmatch(JOB_PATTERN, job) and fnmatchcase(job.rpartition("-")[0], name)}

    def _spec(self, job: str) -> JobSpec | None:
        try:
            return known_spec(self._store, job)
        except (DamagedError, UnreadableError) as error:
            if self._passed_over is None:
                raise
            self._passed_over(f"A job is passed over: {error}")
            return None


def newest_specs(
    store: Store, name: str = "*", *, passed_over: Callable[[str], None] | None = None
) -> Iterator[JobSpec]:
    """Specs of the jobs of a store whose names match a shell pattern, see `Journal`."""
    return Journal(store, passed_over).specs(name)


def _listed(names: Callable[[], Iterable[str]]) -> list[str] | None:
    """Names; None where one of them cannot be read: any job of the team may write one."""
    try:
        return list(names())
    except ObjectNameError:
        return None


def _unlistable(store: Store) -> ObjectNameError:
    return ObjectNameError(
        f"{store.uri}/{layout.JOBS}: a name there has an empty, `.` or `..` part or a control character, and "
        "jobs cannot be listed.",
        "Name a job by its id, or ask the stack's owner to remove the object.",
    )


def find_spec(store: Store, job: str) -> JobSpec:
    """The spec of a job by its id, or of the newest job of a name.

    Raises:
        CallerError: It is neither, or there is no such job.
    """
    is_id = isinstance(job, str) and re.fullmatch(JOB_PATTERN, job)
    if not is_id and not (isinstance(job, str) and re.fullmatch(NAME_PATTERN, job)):
        allowed = "a job's id, <name>-<8 hex digits>, or its name"
        raise CallerError.about("job", job, allowed, "Give the id that `tidemill submit` printed.")
    spec = known_spec(store, job) if is_id else next(newest_specs(store, job), None)
    if spec is None:
        advice = "Check the name with `tidemill jobs`; it may be a job of another pipeline."
        raise CallerError(f"There is no job {job!r} in {store.uri}/jobs.", advice, what="job")
    return spec


def known_spec(store: Store, job: str) -> JobSpec | None:
    try:
        return Ledger(store, job).spec()
    except StoreMissingError:
        return None
