"""The newest jobs as rows of a table: their states and counts."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from tidemill.client.journal import Journal, JournalEntry, time_of
from tidemill.client.site import Site
from tidemill.client.watch.job_filter import JobFilter, JobsRequest
from tidemill.client.watch.status import State
from tidemill.client.watch.watched import WatchedJob
from tidemill.errors import CloudError
from tidemill.ledger.ends import Finished, finished, note_finished
from tidemill.ledger.gate import Gate, UnfinishedJob

_PARALLEL = 16
_AT_ONCE = 64
"""Jobs that are read side by side where most of them may not be meant."""


@dataclass(frozen=True)
class JobRow:
    """A job as `tidemill jobs` shows it. The queue is asked about jobs that have not ended.

    Attributes:
        state: See `Status`.
        created_at: When it was submitted, ISO 8601.
        waits_for: Jobs that must be complete before its first item runs, while they are not.
        sent_by: The trigger that sent it from a template, such as `schedule nightly`; None for a submit.
    """

    job: str
    queue: str
    user: str
    created_at: str
    state: State
    items: int
    succeeded: int
    failed: int
    remaining: int
    waits_for: list[UnfinishedJob] = field(default_factory=list)
    sent_by: str | None = None

    @property
    def state_words(self) -> str:
        """The state for people, who ask which jobs it waits for."""
        return Gate(self.waits_for).words() if self.waits_for else self.state


def job_rows(site: Site, asked: JobsRequest) -> list[JobRow]:
    """Rows of the jobs that a request asks for, newest first. Others are read only where no name in the store tells
    that they are not meant."""
    wanted, journal = JobFilter(asked), Journal(site.store, asked.log)
    entries = list(wanted.chosen(journal.newest(asked.name or "*")))
    ended = _ended(site, entries) if wanted.states else {}
    jobs = (each.job for each in entries if not wanted.states or ended.get(each.job) in {None, *wanted.states})

    def row_of(job: str) -> JobRow | None:
        spec = journal.spec(job)
        if spec is None or not wanted.has(spec):
            return None
        row = _job_row(WatchedJob(site, spec), noted=job in ended or not wanted.states)
        return row if not wanted.states or row.state in wanted.states else None

    rows, some = list[JobRow](), asked.limit
    with ThreadPoolExecutor(_PARALLEL) as pool:
        while len(rows) < asked.limit and (ids := list(islice(jobs, some))):
            rows += filter(None, pool.map(row_of, ids))
            some = max(asked.limit - len(rows), _AT_ONCE)
    return rows[: asked.limit]


def _ended(site: Site, entries: Sequence[JournalEntry]) -> dict[str, Finished]:
    """By job: the state of those whose end is noted."""
    notes = finished(site.store)
    known = ((entry, notes[entry.job]) for entry in entries if entry.job in notes)
    return {entry.job: state for entry, (state, at) in known if time_of(at) >= entry.at}


def _job_row(job: WatchedJob, *, noted: bool) -> JobRow:
    """A job's row. The end of one whose end is not noted yet is written down."""
    spec, seen, waits = job.spec, job.ledger.counts(), list[UnfinishedJob]()
    end: Finished = "failed" if seen.failed else "succeeded"
    state: State = end
    if seen.finished and not noted:
        # It spares a later look; who may only read goes without.
        with suppress(CloudError):
            note_finished(job.ledger.store, spec.job, seen.rounds, end)
    if not seen.finished:
        status, listing = job.look()
        seen = status = job.with_running(status, listing)
        state, waits = status.state, status.waits_for
    return JobRow(
        job=spec.job,
        queue=spec.queue,
        user=spec.user,
        created_at=spec.created_at.isoformat(timespec="seconds"),
        state=state,
        items=seen.items,
        succeeded=seen.succeeded,
        failed=seen.failed,
        remaining=seen.remaining,
        waits_for=waits,
        sent_by=spec.sent_by and spec.sent_by.trigger,
    )
