"""The board of `tidemill top`: the running jobs and the queues of a pipeline, within a budget of requests."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

from tidemill import layout
from tidemill.client.health.queues import read_queues
from tidemill.client.health.reconciler import Report, read_report
from tidemill.client.journal import known_spec, newest_specs
from tidemill.client.site import Site
from tidemill.client.watch.live import Speed
from tidemill.client.watch.quick_status import QuickStatus, advanced
from tidemill.client.watch.status import Status
from tidemill.clouds.account import ignore
from tidemill.errors import CallerError, CloudError, one_line
from tidemill.job import JOB_PATTERN, JobSpec

REQUESTS_A_SECOND = 0.8
BURST = 12.0
"""Requests that may be made at once after a pause. With `REQUESTS_A_SECOND` that is 60 in any minute at most. The first
look at each job comes on top: about ten requests."""
QUICKEST_SECONDS = 2.0
SLOWEST_SECONDS = 60.0
"""Between two looks at a job: the quickest while it changes, up to the slowest while it does not."""
NEW_SECONDS = 30.0
FAILED_SECONDS = 15.0
"""Until a look that has failed is made again."""
QUEUE_SECONDS = 60.0
_PARALLEL = 8


@dataclass(frozen=True)
class QueueRow:
    """A queue with its machines.

    Attributes:
        state: In the cloud's words.
        machines: What runs of what may run, by market: `spot 96 of 4000 CPUs`; empty where the cloud does not tell.
    """

    name: str
    state: str
    machines: str


@dataclass(frozen=True)
class BoardSnapshot:
    """The jobs and queues of the board at one moment.

    Attributes:
        jobs: Newest first; those that have ended while they were watched stay.
        queues: In the order of their names.
        unseen: Jobs without a status yet.
        trouble: Why the last look failed; empty when it did not.
    """

    jobs: list[Status]
    queues: list[QueueRow]
    unseen: list[str] = field(default_factory=list)
    trouble: str = ""

    def to_json(self) -> dict[str, Any]:
        """Stable keys."""
        return {"jobs": [job.to_json() for job in self.jobs], "queues": [asdict(queue) for queue in self.queues]}


class RequestBudget:
    """Keeps requests within a budget: what a look has taken is paid for by the time until the next one."""

    def __init__(self, a_second: float = REQUESTS_A_SECOND, burst: float = BURST) -> None:
        self._a_second, self._burst, self._left, self._at = a_second, burst, burst, time.monotonic()

    def pay(self, requests: float) -> None:
        self._refill()
        self._left -= requests

    @property
    def seconds(self) -> float:
        """Seconds until the next look may be made."""
        self._refill()
        return max(0.0, (1.0 - self._left) / self._a_second)

    def _refill(self) -> None:
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._a_second)
        self._at = now


@dataclass
class _BoardJob:
    glances: QuickStatus
    named: bool
    due: float = 0.0
    every: float = QUICKEST_SECONDS
    status: Status | None = None
    at: float = 0.0
    speed: Speed = field(default_factory=Speed)

    def status_at(self, now: float) -> Status | None:
        """The last status; where that is an estimate anyway, with what has probably ended since."""
        status = self.status
        if status is None or not status.items_a_second or not self.glances.estimates:
            return status
        return advanced(status, int(status.items_a_second * (now - self.at)))

    @property
    def over(self) -> bool:
        return self.status is not None and self.status.ended


class Board:
    """The jobs and queues of a pipeline, kept up to date by `step`. `jobs` are shown whatever they do; without any,
    those of the newest `limit` that have not ended are."""

    def __init__(self, site: Site, jobs: Sequence[JobSpec] = (), limit: int = 20) -> None:
        self._site, self._limit, self._named = site, limit, bool(jobs)
        self._jobs = {spec.job: _BoardJob(QuickStatus(site, spec), named=True) for spec in jobs}
        self._queues: list[QueueRow] = []
        self._pace = RequestBudget() if site.store.is_object_store else RequestBudget(1e9)
        self._new_at = self._queues_at = 0.0
        self._newest = ""
        self._trouble = ""

    def snapshot(self) -> BoardSnapshot:
        """The board as known now; sends no request."""
        jobs, now = list(self._jobs.values()), time.monotonic()
        seen = [status for job in jobs if (status := job.status_at(now))]
        unseen = [job.glances.spec.job for job in jobs if not job.status]
        return BoardSnapshot(seen, self._queues, unseen, self._trouble)

    def step(self) -> float:
        """Make the most urgent look, if the budget allows one, and say in how many seconds the next is due."""
        if wait := self._pace.seconds:
            return wait
        now = time.monotonic()
        try:
            if self._most_urgent(now):
                self._trouble = ""
        except (CloudError, CallerError) as error:
            self._trouble = one_line(error.problem)
            return QUICKEST_SECONDS * 2
        return self._pace.seconds or min(0.5, max(0.0, self._due() - time.monotonic()))

    def whole(self) -> BoardSnapshot:
        """Everything at once, whatever it takes: of each job what `status` says."""
        self._find_new()
        with ThreadPoolExecutor(_PARALLEL) as pool:
            queues = pool.submit(self._read_queues)
            jobs = list(self._jobs.values())
            statuses = pool.map(lambda job: job.glances.whole(), jobs)
            shown = [each for job, each in zip(jobs, statuses, strict=True) if job.named or not each.ended]
            return BoardSnapshot(shown, queues.result())

    # ---- what is looked at ------------------------------------------------------------------------------------------

    def _due(self) -> float:
        own = [job.due for job in self._jobs.values() if not job.over]
        return min([self._queues_at, *own, *([] if self._named else [self._new_at])])

    def _most_urgent(self, now: float) -> bool:
        """Say whether a job or the queues were looked at."""
        if not self._named and now >= self._new_at:
            self._new_at = now + NEW_SECONDS
            self._find_new()
        due = [job for job in self._jobs.values() if not job.over and now >= job.due]
        if due and (now < self._queues_at or all(job.status is None for job in due)):
            self._look(min(due, key=lambda job: job.due), now)
        elif now >= self._queues_at:
            self._queues_at = now + QUEUE_SECONDS * max(1, len(self._queues))
            self._queues = self._read_queues()
            self._pace.pay(1 + 2 * len(self._queues))
        else:
            return False
        return True

    def _look(self, job: _BoardJob, now: float) -> None:
        # It is asked again later, whatever happens now.
        job.due = now + FAILED_SECONDS
        before, requests = job.status, job.glances.requests
        try:
            job.status = self._with_speed(job, job.glances.look())
        finally:
            self._pace.pay(job.glances.requests - requests if before else 0)
        job.at = time.monotonic()
        moved = before is None or job.status.progress != before.progress
        job.every = QUICKEST_SECONDS if moved else min(SLOWEST_SECONDS, 1.5 * job.every)
        job.due = now + job.every
        if before is None and job.over and not job.named:
            del self._jobs[job.glances.spec.job]

    def _with_speed(self, job: _BoardJob, status: Status) -> Status:
        """A status with a speed from the counts of several looks, where the times of records tell none."""
        job.speed.look(status)
        if status.items_a_second or status.ended:
            return status
        return replace(status, items_a_second=job.speed.items_a_second, seconds_left=job.speed.seconds_left)

    def _find_new(self) -> None:
        """Add the newest jobs; after the first time, those that were submitted since."""
        if self._named:
            return
        store, first = self._site.store, not self._newest
        entries = list(store.list(layout.JOURNAL, self._newest or None))
        specs = list(islice(newest_specs(store, passed_over=ignore), self._limit)) if first else self._specs_of(entries)
        self._pace.pay(0 if first else 1 + len(specs))
        self._newest = entries[-1] if entries else self._newest
        jobs = {spec.job: _BoardJob(QuickStatus(self._site, spec), named=False) for spec in specs}
        # A snapshot may be taken meanwhile, by another thread.
        self._jobs = {job: each for job, each in jobs.items() if job not in self._jobs} | self._jobs

    def _specs_of(self, entries: Sequence[str]) -> list[JobSpec]:
        jobs = [entry.rpartition("~")[2] for entry in reversed(entries)]
        specs = [known_spec(self._site.store, job) for job in jobs if re.fullmatch(JOB_PATTERN, job)]
        return [spec for spec in specs if spec]

    # ---- queues -----------------------------------------------------------------------------------------------------

    def _read_queues(self) -> list[QueueRow]:
        report = read_report(self._site.store) if self._site.reconciled else None
        rows = [QueueRow(each.name, each.state.detail, "") for each in read_queues(self._site)]
        return [replace(row, machines=self._machines(row.name, report)) for row in rows]

    def _machines(self, queue: str, report: Report | None) -> str:
        if report:
            groups = report.groups(queue)
            return ", ".join(f"{market} {group.running} of {group.target} machines" for market, group in groups)
        cloud, _ = self._site.backend(queue).queue_facts(self._site.descriptor.queues[queue])
        return cloud.machines() if cloud else ""
