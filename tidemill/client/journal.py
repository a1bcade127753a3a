"""The journal: an empty object per job whose name says when it was submitted, so that a listing finds the newest jobs.

It lies under ``jobs/``, where submitters may write, and expires with the jobs. A job without an entry is found all
the same, by its folder: its submit died in between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC

from tidemill import layout
from tidemill.errors import CallerError, DamagedError, ObjectNameError, StoreMissingError
from tidemill.job import JOB_PATTERN, NAME_PATTERN, JobSpec
from tidemill.ledger import Ledger
from tidemill.ledger.documents import UnreadableError
from tidemill.store import Store

_PARALLEL = 8


def enter(store: Store, spec: JobSpec) -> None:
    """Write a job down. The same job has the same entry, however often."""
    store.put(f"{layout.JOURNAL}/{spec.created_at.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}~{spec.job}", b"")


def job_ids(store: Store, name: str | None = None) -> set[str]:
    """Ids of the jobs of a name, or of all, those among them whose submit has not come as far as the spec."""
    names = _listed(lambda: store.folders(layout.JOBS))
    if names is None and (names := _listed(lambda: store.list(layout.JOURNAL))) is None:
        raise _unlistable(store)
    ids = (re.split("[/~]", entry)[-1] for entry in names)
    return {job for job in ids if _is_job(job, name)}


def _is_job(word: str, name: str | None) -> bool:
    """True for the id of a job of a name, or of any."""
    return re.fullmatch(JOB_PATTERN, word) is not None and name in (None, word.rpartition("-")[0])


def newest_specs(
    store: Store, name: str | None = None, *, passed_over: Callable[[str], None] | None = None
) -> Iterator[JobSpec]:
    """Specs of the jobs of a store, or of those of a name, newest first. A spec is read only when it is asked for.

    Args:
        store: The store.
        name: Of the jobs; None for all.
        passed_over: Is told each spec that cannot be read: any job of the team may have written it. None where all
            count, and one that cannot be read ends the listing.
    """

    def read_spec(job: str) -> JobSpec | None:
        try:
            return known_spec(store, job)
        except (DamagedError, UnreadableError) as error:
            if passed_over is None:
                raise
            passed_over(f"A job is passed over: {error}")
            return None

    with ThreadPoolExecutor(_PARALLEL) as pool:
        folders = pool.submit(_listed, lambda: store.folders(layout.JOBS))
        journal = _listed(lambda: store.list(layout.JOURNAL))
        if (names := folders.result()) is None and journal is None:
            raise _unlistable(store)
        entries = [entry.rpartition("/")[2].partition("~") for entry in journal or ()]
        # Where folders cannot be listed, the journal tells which jobs there are.
        there = [job for _, _, job in entries] if names is None else [name.rpartition("/")[2] for name in names]
        ids = {job for job in there if _is_job(job, name)}
        listed = {job: at for at, _, job in entries if job in ids}
        unknown = filter(None, pool.map(read_spec, ids - listed.keys()))
        # A spec that was read has its own time.
        read = {spec.job: spec for spec in unknown}
        times = listed | {job: f"{spec.created_at.astimezone(UTC):%Y%m%dT%H%M%S.%fZ}" for job, spec in read.items()}
    for job in sorted(times, key=lambda job: (times[job], job), reverse=True):
        if spec := read.get(job) or read_spec(job):
            yield spec


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
