"""Log lines of a job: which ones are wanted, and following them as they come."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial

from tidemill.client.report.failures import items_of_group
from tidemill.client.rounds.deliveries import known_arrays, oldest_by_name
from tidemill.client.site import Site
from tidemill.client.watch.wait import WatchedJob
from tidemill.clouds.account import Account, LogLine, LogSearch, ignore
from tidemill.errors import CallerError, one_line
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Outcome
from tidemill.services.backend import ArrayState

OVERLAP_SECONDS = 15.0
"""How far back each look goes in the order in which a cloud received lines."""
QUIET_SECONDS = 4.0
"""Time without a new line, after the job has ended, after which no more are expected."""


@dataclass(frozen=True)
class LineFilter:
    """Which lines of a job are wanted. See `Job.logs`."""

    item: int | None = None
    worker: bool = False
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    regex: str | None = None
    items: frozenset[int] | None = None
    limit: int | None = None
    say: Callable[[str], None] = ignore

    def __post_init__(self) -> None:
        try:
            re.compile(self.regex or "")
        except re.error as error:
            allowed = "a regular expression of Python"
            raise CallerError.about("regex", self.regex, allowed, f"{one_line(error)}.".capitalize()) from None

    def search(self, spec: JobSpec) -> LogSearch:
        """The search that a backend makes."""
        since = max(spec.created_at.timestamp(), self.since_seconds)
        items = self.items if self.item is None else frozenset([self.item])
        printed, limit = not self.worker, self.limit
        return LogSearch(
            spec.job, items, since, self.until_seconds, self.text, self.regex, printed, limit, say=self.say
        )

    @property
    def narrow(self) -> bool:
        """True if few lines of a whole job are wanted."""
        return any(value is not None for value in (self.text, self.regex, self.items, self.limit))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.regex or "")

    @property
    def since_seconds(self) -> float:
        return self.since.timestamp() if self.since else 0.0

    @property
    def until_seconds(self) -> float | None:
        return self.until.timestamp() if self.until else None

    def has(self, line: LogLine) -> bool:
        until = self.until_seconds
        return (
            (self.worker or "stream" in line.fields)
            and self._of_the_item(line)
            and self.since_seconds <= line.at
            and (until is None or line.at <= until)
            and (self.text is None or self.text in line.said)
            and (self.regex is None or self._pattern.search(line.said) is not None)
        )

    def _of_the_item(self, line: LogLine) -> bool:
        if self.items is not None:
            return line.fields.get("item") in self.items
        if self.item is None:
            return True
        return line.fields["item"] == self.item if "item" in line.fields else "stream" not in line.fields


def choose_lines(
    ledger: Ledger, spec: JobSpec, *, item: int | None = None, failed: bool = False, group: str | None = None
) -> LineFilter:
    """A filter of the items that somebody wants: the ledger knows which have failed, without a search.

    Raises:
        CallerError: The job has no such item or group.
    """
    if item is not None and not 0 <= item < spec.items_total:
        raise CallerError.about("item", item, f"from 0 to {spec.items_total - 1}", "Give an item's index.")
    if group is not None:
        return LineFilter(items=frozenset(items_of_group(spec.job, _failures(ledger), group)))
    if failed:
        return LineFilter(items=frozenset(one.index for one in _failures(ledger)))
    return LineFilter(item)


def _failures(ledger: Ledger) -> Iterator[Outcome]:
    """Outcomes of items that failed; only records with one are read, and progress."""
    listing = ledger.listing()
    return (one for one in ledger.outcomes(listing.failed.keys() | listing.waiting) if one.status == "failed")


def job_lines(job: WatchedJob, wanted: LineFilter, *, follow: bool) -> Iterator[LogLine]:
    """The lines of a job that pass a filter; new ones, too, until it has ended, where they are followed."""
    if not follow:
        return read_lines(job.site, job.ledger, job.spec, wanted)
    wanted = replace(wanted, until=None, limit=None)
    read = partial(read_lines, job.site, job.ledger, job.spec, wanted)
    ended = lambda: job.look(consumption=False, running=False)[0].ended  # noqa: E731
    return follow_lines(job.site.account, wanted.search(job.spec), read, ended)


def follow_lines(
    account: Account, search: LogSearch, read: Callable[[LogSearch], Iterator[LogLine]], has_ended: Callable[[], bool]
) -> Iterator[LogLine]:
    """Lines that are there, then new ones as they come, until the job has ended and no more come.

    Each line is yielded once, although looks overlap. `read` yields the lines that are there now.
    """
    seen: dict[tuple[object, ...], LogLine] = {}
    since, looks, quiet = search.since, 1 + math.ceil(QUIET_SECONDS / account.log_poll_seconds), 0
    while quiet < looks:
        new = False
        for line in read(search):
            # Lines beyond the search were shown before.
            expected = line.at >= search.since and line.arrived >= search.arrived
            if expected and (key := _identity(line)) not in seen:
                seen[key], new = line, True
                yield line
        if seen:
            # A machine's clock may be wrong, the cloud's is not.
            newest = max(line.arrived or line.at for line in seen.values())
            start = max(newest - account.log_late_seconds, since)
            arrived = max(line.arrived for line in seen.values()) - OVERLAP_SECONDS
            search = replace(search, since=start, arrived=max(arrived, 0.0))
            seen = {key: line for key, line in seen.items() if line.at >= start and line.arrived >= search.arrived}
        # Asking for the status costs a few requests, so it is done in a pause of the lines only.
        quiet = quiet + 1 if not new and has_ended() else 0
        if quiet < looks:
            time.sleep(account.log_poll_seconds)


def _identity(line: LogLine) -> tuple[object, ...]:
    return (line.id,) if line.id else (line.at, line.stream, line.message)


def read_lines(
    site: Site, ledger: Ledger, spec: JobSpec, wanted: LineFilter, search: LogSearch | None = None
) -> Iterator[LogLine]:
    """An item's containers are read by name; what the cloud has forgotten, and whole jobs, by a search.

    Args:
        search: Of a follower, which looks for the newest lines only.
    """
    backend, following = site.backend(spec.queue), search is not None
    search = search or wanted.search(spec)
    # One search reads the lines of all workers of a local job.
    children = (
        []
        if wanted.item is None or site.local or not backend.service.sees_children
        else _children(site, ledger, spec, wanted.item)
    )
    if children:
        lines = (line for array, index in children for line in backend.child_logs(array, index, search))
    elif wanted.narrow and wanted.item is None and not following:
        lines = site.account.search_logs(search)
    else:
        lines = site.account.logs(search)
    yield from itertools.islice(filter(wanted.has, lines), wanted.limit)


def _children(site: Site, ledger: Ledger, spec: JobSpec, item: int) -> list[tuple[ArrayState, int]]:
    """Containers that were given an item and that the cloud remembers."""
    by_name = oldest_by_name(known_arrays(site, spec))
    chunk = ledger.index().chunk_of(item)
    arrays = [array for round_ in ledger.rounds() for array in round_.arrays if array.name in by_name]
    return [(by_name[array.name], array.all().index(chunk)) for array in arrays if chunk in array.all()]
