"""Removals of jobs: what would go, what stays and why, and then the removal itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

from tidemill import layout
from tidemill.client.housekeeping.job_folders import (
    Extent,
    check_may_delete,
    extent,
    folders_of,
    forget_removals,
    is_half_removed,
    remove_job,
    running,
)
from tidemill.client.housekeeping.job_users import JobUsers
from tidemill.client.housekeeping.leftovers import Leftover, leftovers
from tidemill.client.journal import find_spec, known_spec, newest_specs
from tidemill.client.site import Site
from tidemill.client.watch.status import Status
from tidemill.client.watch.watched import WatchedJob
from tidemill.clouds.account import ignore
from tidemill.errors import CallerError, DamagedError, StoreMissingError
from tidemill.job import JOB_PATTERN, JobSpec
from tidemill.removal import remove
from tidemill.store.ahead import in_order

_PARALLEL = 8
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class JobRemoval:
    """A job with all that is kept of it.

    Attributes:
        job: Its id.
        state: Its state, as `tidemill jobs` has it; `damaged` where that cannot be told, and `removing` for
            a job that an earlier removal has left half-way.
        items: How many items it has.
        objects: Objects of the job in the store: records, outputs, state and logs.
        bytes: Their bytes.
        written: When the newest of them was written (ISO 8601, UTC); None where nothing is left.
        elsewhere: URI of its outputs, where they are not in the store's own folder: those stay.
        kept: Why it is not removed; None for one that is.
    """

    job: str
    state: str
    items: int
    objects: int
    bytes: int
    written: str | None
    elsewhere: str | None = None
    kept: str | None = None


@dataclass(frozen=True)
class Removal:
    """All that a removal takes. Nothing changes before `carry_out`.

    Attributes:
        jobs: The jobs, the newest first: a job goes before those that it uses.
        leftovers: What no job uses.
    """

    jobs: list[JobRemoval]
    leftovers: list[Leftover]
    _site: Site = field(repr=False, compare=False)
    _users: JobUsers = field(repr=False, compare=False)
    _paths: list[Path] = field(default_factory=list, repr=False, compare=False)

    @property
    def removed(self) -> list[JobRemoval]:
        """The jobs that are not kept."""
        return [job for job in self.jobs if job.kept is None]

    @property
    def bytes(self) -> int:
        """Bytes of all that goes."""
        return sum(part.bytes for part in (*self.removed, *self.leftovers))

    def carry_out(self, done: Callable[[str], None] = ignore) -> None:
        """Remove it. After an interrupt, the same removal again finishes. `done` is told each job and leftover that is
        gone.

        Raises:
            CallerError: A run works on a job again, or a newer job uses it. It stays, and those after it.
            CloudError: The store refuses: this login may not delete.
        """
        going = {job.job for job in self.removed}
        for job in self.removed:
            remove_job(self._site, job.job, partial(self._check_unused, job.job, going))
            going.remove(job.job)
            self._users.forget(job.job)
            done(job.job)
        forget_removals(self._site.store, [job.job for job in self.removed])
        for path in self._paths:
            remove(path)
        for leftover in self.leftovers:
            done(leftover.what)

    def _check_unused(self, job: str, going: Collection[str]) -> None:
        """Raise if a job that stays has come to use one which goes."""
        self._users.look()
        for user in self._users.of(job):
            if user not in going:
                raise _in_use(self._site, job, user)


def plan_removal(site: Site, names: Sequence[str]) -> Removal:
    """The removal of some jobs, by their ids or names. See `Housekeeping.removal`."""
    for name in names:
        if not isinstance(name, str):
            raise CallerError.about("jobs", name, "ids or names", "Give each by itself: `removal(*jobs)`.")
    given = dict.fromkeys(names)
    users = JobUsers(site.store)
    half = [name for name in given if re.fullmatch(JOB_PATTERN, name) and is_half_removed(site.store, name)]
    specs = {spec.job: spec for spec in (find_spec(site.store, name) for name in given if name not in half)}
    statuses = _statuses(site, specs.values())
    for reason in _reasons(site, users, statuses).values():
        raise reason
    return _removal(site, users, specs.values(), half, statuses=statuses, reasons={})


def plan_cleanup(site: Site, older_than_seconds: float | None) -> Removal:
    """The removal of what is old, and of what no job uses. See `Housekeeping.cleanup`."""
    users = JobUsers(site.store)
    until = None if older_than_seconds is None else site.account.now() - older_than_seconds
    old = [] if until is None else _written_before(site, until)
    statuses = _statuses(site, old)
    reasons = _reasons(site, users, statuses)
    return _removal(site, users, old, _half_removed(site), statuses=statuses, reasons=reasons, unused=True)


def _removal(
    site: Site,
    users: JobUsers,
    specs: Collection[JobSpec],
    half: Sequence[str],
    *,
    statuses: Mapping[str, Status | None],
    reasons: Mapping[str, CallerError],
    unused: bool = False,
) -> Removal:
    """The removal of jobs, of those that are half removed, and with `unused` of what no other job uses."""
    ordered = sorted(specs, key=lambda spec: spec.created_at, reverse=True)
    extents = _extents(site, [*(spec.job for spec in ordered), *half])
    rows = [_row(spec, extents[spec.job], statuses[spec.job], reasons.get(spec.job)) for spec in ordered]
    rows += [JobRemoval(job, "removing", 0, *_figures(extents[job])) for job in half]
    going = [row.job for row in rows if row.kept is None]
    for job in going[:1]:
        check_may_delete(site.store, job)
    left = leftovers(site, going) if unused else {}
    return Removal(rows, list(left), site, users, list(chain(*left.values())))


def _row(spec: JobSpec, size: Extent, status: Status | None, reason: CallerError | None) -> JobRemoval:
    state, kept = status.state if status else "damaged", None if reason is None else str(reason)
    return JobRemoval(spec.job, state, spec.items_total, *_figures(size), spec.output, kept)


def _figures(size: Extent) -> tuple[int, int, str | None]:
    written = datetime.fromtimestamp(size.written, UTC).isoformat(timespec="seconds") if size.written else None
    return size.objects, size.bytes, written


# ---- which jobs -----------------------------------------------------------------------------------------------------


def _written_before(site: Site, until: float) -> list[JobSpec]:
    """Jobs in which nothing was written since a time: neither a round nor a record."""
    old = [spec for spec in newest_specs(site.store) if spec.created_at.timestamp() < until]
    records = _side_by_side(lambda spec: extent(site.store, folders_of(spec.job)[-1]), old)
    return [spec for spec, size in zip(old, records, strict=True) if size.written < until]


def _half_removed(site: Site) -> list[str]:
    """Jobs that an earlier removal has left half-way."""
    begun = [name.rpartition("/")[2] for name in site.store.list(layout.REMOVALS)]
    return [job for job in begun if re.fullmatch(JOB_PATTERN, job) and is_half_removed(site.store, job)]


def _reasons(site: Site, users: JobUsers, statuses: Mapping[str, Status | None]) -> dict[str, CallerError]:
    """Why some of these jobs stay: they have not ended, or another job uses them and stays, too."""
    reasons: dict[str, CallerError] = {}
    for job, status in statuses.items():
        if status and (not status.ended or status.chunks.running):
            reasons[job] = running(job, "running" if status.ended else status.state)
    if statuses:
        users.look()
    while True:
        going = statuses.keys() - reasons.keys()
        used = {job: next((user for user in users.of(job) if user not in going), None) for job in going}
        kept = {job: _in_use(site, job, user) for job, user in used.items() if user}
        if not kept:
            return reasons
        reasons |= kept


def _in_use(site: Site, job: str, user: str) -> CallerError:
    spec = known_spec(site.store, user)
    status = spec and _status(site, spec)
    if status and not status.ended:
        fix = f"`tidemill cancel {user}` ends that."
        return CallerError(f"{user} needs {job} and is {status.state}.", fix, what="job", value=job)
    fix = f"`tidemill rm {job} {user}` removes both."
    return CallerError(f"{user} uses what {job} has left.", fix, what="job", value=job)


# ---- looks at many --------------------------------------------------------------------------------------------------


def _statuses(site: Site, specs: Collection[JobSpec]) -> dict[str, Status | None]:
    found = _side_by_side(lambda spec: _status(site, spec), specs)
    return {spec.job: status for spec, status in zip(specs, found, strict=True)}


def _status(site: Site, spec: JobSpec) -> Status | None:
    """A job's status; None where what is stored of it is damaged, so that nothing of it can run."""
    try:
        return WatchedJob(site, spec).look()[0]
    except (DamagedError, StoreMissingError):
        return None


def _extents(site: Site, jobs: Iterable[str]) -> dict[str, Extent]:
    wanted = [(job, folder) for job in jobs for folder in folders_of(job)]
    sizes = _side_by_side(lambda each: extent(site.store, each[1]), wanted)
    found: dict[str, Extent] = {}
    for (job, _), size in zip(wanted, sizes, strict=True):
        found[job] = found.get(job, Extent()).plus(size)
    return found


def _side_by_side(do: Callable[[T], R], things: Iterable[T]) -> list[R]:
    with ThreadPoolExecutor(_PARALLEL) as pool:
        return list(in_order(pool, do, things))
