"""Log lines of a job: which ones are wanted, and following them as they come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tidemill.backends import ArrayState, LogLine
from tidemill.client.deliveries import known_arrays, oldest_by_name
from tidemill.client.site import Site
from tidemill.job import JobSpec
from tidemill.ledger import Ledger

POLL_SECONDS = 2.0
LATE_SECONDS = 60.0
"""How far back each look goes: lines of different machines do not arrive in the order of their times."""
QUIET_LOOKS = 3
"""Looks without a new line, after the job has ended, after which no more are expected."""


@dataclass(frozen=True)
class LineFilter:
    """Which lines of a job are wanted. See `Job.logs`."""

    item: int | None = None
    worker: bool = False
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None

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
        )

    def _of_the_item(self, line: LogLine) -> bool:
        if self.item is None:
            return True
        return line.fields["item"] == self.item if "item" in line.fields else "stream" not in line.fields


def follow_lines(
    wanted: LineFilter, read: Callable[[LineFilter], Iterator[LogLine]], has_ended: Callable[[], bool]
) -> Iterator[LogLine]:
    """Lines that are there, then new ones as they come, until the job has ended and no more come.

    Each line is yielded once, although looks overlap. `read` yields the lines that are there now.
    """
    wanted = replace(wanted, until=None)
    seen: dict[tuple[object, ...], float] = {}
    quiet = 0
    while quiet < QUIET_LOOKS:
        new = False
        for line in read(wanted):
            if (key := _identity(line)) not in seen:
                seen[key], new = line.at, True
                yield line
        if seen:
            start = max(max(seen.values()) - LATE_SECONDS, wanted.since_seconds)
            wanted = replace(wanted, since=datetime.fromtimestamp(start, UTC))
            seen = {key: at for key, at in seen.items() if at >= start}
        # Asking for the status costs a few requests, so it is done in a pause of the lines only.
        quiet = quiet + 1 if not new and has_ended() else 0
        if quiet < QUIET_LOOKS:
            time.sleep(POLL_SECONDS)


def _identity(line: LogLine) -> tuple[object, ...]:
    return (line.id,) if line.id else (line.at, line.stream, line.message)


def read_lines(site: Site, ledger: Ledger, spec: JobSpec, wanted: LineFilter) -> Iterator[LogLine]:
    """An item's containers are read by name; what the cloud has forgotten, and whole jobs, by a search."""
    backend = site.backend
    since = max(spec.created_at.timestamp(), wanted.since_seconds)
    children = [] if wanted.item is None or not backend.sees_children else _children(site, ledger, spec, wanted.item)
    for array, index in children:
        yield from filter(wanted.has, backend.child_logs(spec.job, array, index))
    if not children:
        fields: dict[str, str | int] = {"job": spec.job} | ({} if wanted.item is None else {"item": wanted.item})
        lines = backend.logs(fields, since, wanted.until_seconds, wanted.text)
        yield from filter(wanted.has, lines)


def _children(site: Site, ledger: Ledger, spec: JobSpec, item: int) -> list[tuple[ArrayState, int]]:
    """Containers that were given an item and that the cloud remembers."""
    by_name = oldest_by_name(known_arrays(site, spec))
    chunk = ledger.index().chunk_of(item)
    arrays = [array for round_ in ledger.rounds() for array in round_.arrays if array.name in by_name]
    return [(by_name[array.name], array.all().index(chunk)) for array in arrays if chunk in array.all()]
