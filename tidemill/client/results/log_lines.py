"""Log lines of a job: which ones are wanted, and following them as they come."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial

from tidemill.client.results.requests import LogRequest
from tidemill.client.rounds.deliveries import known_arrays, oldest_by_name
from tidemill.client.watch.watched import WatchedJob
from tidemill.clouds.account import Account, LogLine, LogSearch
from tidemill.errors import CallerError, one_line
from tidemill.failures import items_of_group
from tidemill.ledger import Ledger, Outcome
from tidemill.services.backend import ArrayState

OVERLAP_SECONDS = 15.0
"""How far back each look goes in the order in which a cloud received lines."""
QUIET_SECONDS = 4.0
"""Time without a new line, after the job has ended, after which no more are expected."""


class LineFilter:
    """The lines of a job that a request asks for. The ledger knows which items have failed, without a search.

    Raises:
        CallerError: The job has no such item or group, or the expression is not one.
    """

    def __init__(self, job: WatchedJob, asked: LogRequest) -> None:
        self._spec, self._asked, self.item = job.spec, asked, asked.item
        self.items: frozenset[int] | None = None
        if asked.item is not None and not 0 <= asked.item < job.spec.items_total:
            allowed = f"from 0 to {job.spec.items_total - 1}"
            raise CallerError.about("item", asked.item, allowed, "Give an item's index.")
        if asked.group is not None or asked.failed:
            failed = _failures(job.ledger)
            group = asked.group
            chosen = (one.index for one in failed) if group is None else items_of_group(job.spec.job, failed, group)
            self.item, self.items = None, frozenset(chosen)
        try:
            self._pattern = re.compile(asked.regex or "")
        except re.error as error:
            allowed = "a regular expression of Python"
            raise CallerError.about("regex", asked.regex, allowed, f"{one_line(error)}.".capitalize()) from None
        for name, moment in (("since", asked.since), ("until", asked.until)):
            if not isinstance(moment, datetime | None):
                raise CallerError.about(name, moment, "a datetime", "Write datetime(2026, 11, 21, 9, 30).")
        self.since = asked.since.timestamp() if asked.since else 0.0
        self.until = asked.until.timestamp() if asked.until and not asked.follow else None
        self.limit = None if asked.follow else asked.limit

    @property
    def search(self) -> LogSearch:
        """The search that a backend makes."""
        since, asked = max(self._spec.created_at.timestamp(), self.since), self._asked
        items = self.items if self.item is None else frozenset([self.item])
        where = (self._spec.job, items, since, self.until)
        return LogSearch(*where, asked.text, asked.regex, not asked.worker, self.limit, say=asked.say)

    @property
    def narrow(self) -> bool:
        """True if few lines of a whole job are wanted."""
        chosen = (self._asked.text, self._asked.regex, self.items, self.limit)
        return self.item is None and any(value is not None for value in chosen)

    def has(self, line: LogLine) -> bool:
        return (
            (self._asked.worker or "stream" in line.fields)
            and self._of_the_item(line)
            and self.since <= line.at
            and (self.until is None or line.at <= self.until)
            and (self._asked.text is None or self._asked.text in line.said)
            and self._pattern.search(line.said) is not None
        )

    def _of_the_item(self, line: LogLine) -> bool:
        if self.items is not None:
            return line.fields.get("item") in self.items
        if self.item is None:
            return True
        return line.fields["item"] == self.item if "item" in line.fields else "stream" not in line.fields


def _failures(ledger: Ledger) -> Iterator[Outcome]:
    """Outcomes of items that failed; only records with one are read, and progress."""
    listing = ledger.listing()
    return (one for one in ledger.outcomes(listing.failed.keys() | listing.waiting) if one.status == "failed")


def job_lines(job: WatchedJob, asked: LogRequest) -> Iterator[LogLine]:
    """See `Job.logs`."""
    wanted = LineFilter(job, asked)
    if wanted.item is not None and (origin := job.ledger.origin(wanted.item)):
        asked.say(f"Item {wanted.item} ran as item {origin[1]} of {origin[0]}.")
        job = WatchedJob(job.site, Ledger(job.site.store, origin[0]).spec())
        wanted = LineFilter(job, replace(asked, item=origin[1]))
    if not asked.follow:
        return read_lines(job, wanted)
    ended = lambda: job.look()[0].ended  # noqa: E731
    return follow_lines(job.site.account, wanted.search, partial(read_lines, job, wanted), ended)


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


def read_lines(job: WatchedJob, wanted: LineFilter, search: LogSearch | None = None) -> Iterator[LogLine]:
    """An item's containers are read by name; what the cloud has forgotten, and whole jobs, by a search.

    Args:
        search: Of a follower, which looks for the newest lines only.
    """
    site, backend, following = job.site, job.site.backend(job.spec.queue), search is not None
    search = search or wanted.search
    # One search reads the lines of all workers of a local job.
    by_name = wanted.item is not None and not site.local and backend.service.sees_children
    children = _children(job, wanted.item or 0) if by_name else []
    streams = [backend.child_logs(array, index, search) for array, index in children]
    if own := [stream for stream in streams if stream is not None]:
        lines = itertools.chain.from_iterable(own)
    elif wanted.narrow and not following:
        lines = site.account.search_logs(search)
    else:
        lines = site.account.logs(search)
    yield from itertools.islice(filter(wanted.has, lines), wanted.limit)


def _children(job: WatchedJob, item: int) -> list[tuple[ArrayState, int]]:
    """Containers that were given an item and that the cloud remembers."""
    by_name = oldest_by_name(known_arrays(job.site, job.spec))
    chunk = job.ledger.index().chunk_of(item)
    arrays = [array for round_ in job.ledger.rounds() for array in round_.arrays if array.name in by_name]
    return [(by_name[array.name], array.all().index(chunk)) for array in arrays if chunk in array.all()]
