"""The newest jobs as rows of a table: their states and counts."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tidemill.client.site import Site
from tidemill.client.watch.status import State
from tidemill.client.watch.watched import WatchedJob
from tidemill.job import JobSpec
from tidemill.ledger.gate import Gate, UnfinishedJob

_PARALLEL = 8


@dataclass(frozen=True)
class JobRow:
    """A job as `tidemill jobs` shows it. The queue is asked about jobs that have not ended.

    Attributes:
        state: See `Status`.
        created_at: When it was submitted, ISO 8601.
        waits_for: Jobs that must be complete before its first item runs, while they are not.
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

    @property
    def state_words(self) -> str:
        """The state for people, who ask which jobs it waits for."""
        return Gate(self.waits_for).words() if self.waits_for else self.state


def job_rows(site: Site, specs: Iterable[JobSpec]) -> list[JobRow]:
    """A row for each job, in their order."""
    with ThreadPoolExecutor(_PARALLEL) as pool:
        return list(pool.map(lambda spec: _job_row(WatchedJob(site, spec)), specs))


def _job_row(job: WatchedJob) -> JobRow:
    spec, seen, waits = job.spec, job.ledger.counts(), list[UnfinishedJob]()
    state: State = "failed" if seen.failed else "succeeded"
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
    )
