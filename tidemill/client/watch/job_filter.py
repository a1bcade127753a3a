"""The question of a list of jobs: the arguments of `Pipeline.jobs`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import get_args

from tidemill.client.arguments import mapping, texts
from tidemill.client.journal import JournalEntry, marks_of, time_of
from tidemill.client.site import Log
from tidemill.client.watch.status import State
from tidemill.clouds.account import ignore
from tidemill.errors import CallerError
from tidemill.job import JobSpec

STATES: tuple[str, ...] = get_args(State)


@dataclass(frozen=True)
class JobsRequest:
    """Jobs that a caller asks for: the newest for which everything holds.

    Attributes:
        limit: How many at most.
        log: Is told those whose spec cannot be read.
        user: Who sent it.
        state: One state, or several; see `Status`.
        queue: Where it runs.
        tags: All of these tags, with these values.
        name: Its name, or a shell pattern, such as `nightly-*`.
        since: Only jobs that were sent then or later.
        until: Only jobs that were sent then or before: the time of the last row, for the next page.
    """

    limit: int = 20
    log: Log = ignore
    _: KW_ONLY
    user: str | None = None
    state: State | Collection[State] | None = None
    queue: str | None = None
    tags: Mapping[str, str] | None = None
    name: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class JobFilter:
    """The jobs for which everything holds that a request asks for.

    Raises:
        CallerError: There is no such state, or a value has another kind.
    """

    def __init__(self, asked: JobsRequest) -> None:
        given = [asked.state] if isinstance(asked.state, str) else asked.state or ()
        allowed = f"of {', '.join(STATES)}"
        self.states = frozenset(texts("state", given, allowed, "Write the name of a state, or a list."))
        for state in sorted(self.states - set(STATES)):
            raise CallerError.about("state", state, f"one {allowed}", "Correct it.")
        for key in ("user", "queue", "name"):
            if not isinstance(value := getattr(asked, key), str | None):
                raise CallerError.about(key, value, "a text", "Write its name.")
        for key, moment in (("since", asked.since), ("until", asked.until)):
            if not isinstance(moment, datetime | None):
                raise CallerError.about(key, moment, "a datetime", "Write datetime(2026, 11, 21, 9, 30).")
        if asked.since and asked.until and time_of(asked.since) > time_of(asked.until):
            allowed = f"at most `until`, {asked.until.isoformat(timespec='seconds')}"
            raise CallerError.about("since", asked.since.isoformat(timespec="seconds"), allowed, "Exchange the two.")
        self._asked, self._tags = asked, mapping("tags", asked.tags)
        self._marks = marks_of(asked.user, asked.queue, self._tags)
        self._since = time_of(asked.since) if asked.since else ""
        # Rows have no fractions of a second.
        self._until = time_of(asked.until.replace(microsecond=999_999)) if asked.until else "~"

    def chosen(self, entries: Collection[JournalEntry]) -> Iterator[JournalEntry]:
        """The entries of jobs that may be meant. Marks rule others out; they never tell that a job is meant."""
        for entry in entries:
            marked = entry.marks is None or self._marks <= entry.marks
            if marked and self._since <= entry.at <= self._until and fnmatchcase(entry.name, self._asked.name or "*"):
                yield entry

    def has(self, spec: JobSpec) -> bool:
        """True for a job that is meant, whatever its state is."""
        asked = self._asked
        return (
            asked.user in (None, spec.user)
            and asked.queue in (None, spec.queue)
            and self._tags.items() <= spec.tags.items()
        )
