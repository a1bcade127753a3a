"""A job that was submitted, seen from anywhere: everything is in the store and in the queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from tidemill.backends import ArrayState, LogLine
from tidemill.client.deliveries import known_arrays
from tidemill.client.journal import find_spec
from tidemill.client.lines import LineFilter, follow_lines, read_lines
from tidemill.client.looking import BY_ITS_USER, read_status
from tidemill.client.rounds import Sent, resume, retry, retry_dead, send_again
from tidemill.client.running import RunningItems
from tidemill.client.site import Log, Site
from tidemill.client.status import Status, Summary, summarise
from tidemill.code import pack, upload
from tidemill.errors import CallerError, CloudError, StoreDeniedError
from tidemill.job import JobSpec
from tidemill.ledger import Counts, Ledger, Outcome
from tidemill.ledger.rounds import round_of

POLL_SECONDS = 2.0
SLOWEST_POLL_SECONDS = 15.0
LISTING_SECONDS = 0.4
"""Pause per listing that a poll takes: an hour takes 9,000 listings at most, which cost 0.045 USD."""
FRUITLESS_REPAIRS = 3
"""After this many repairs that finish no chunk, `wait` gives up."""
OUTAGES = 10
"""Polls in a row that the store or the cloud may refuse before `wait` gives up."""


def quiet(text: str) -> None:
    """Says nothing."""


class Job:
    """A job of a pipeline. Made by `Pipeline.submit` and `Pipeline.job`.

    Example:
        >>> job = pipeline.job("tiles")
        >>> job.status().succeeded
        2
    """

    def __init__(self, site: Site, job: str, spec: JobSpec) -> None:
        self.id = job
        self.spec = spec
        self.enqueued = 0
        """Arrays that this submit handed to the cloud."""
        self._site = site
        self._ledger = Ledger(site.store, job, spec.manifest)
        self._running = RunningItems(self._ledger)

    @classmethod
    def find(cls, site: Site, job: str) -> Job:
        """A job by its id, or the newest of a name.

        Raises:
            CallerError: It is neither, or there is no such job.
        """
        spec = find_spec(site.store, job)
        return cls(site, spec.job, spec)

    @property
    def output(self) -> str:
        """URI under which the items' outputs go.

        Example:
            >>> job.output
            '.../out/tiles-...'
        """
        return self.spec.output_prefix(self._site.store.uri)

    @property
    def run_command(self) -> str | None:
        """What has to be typed for the job to run where no cloud does that: in a store of `tidemill run`. Else None.

        Example:
            >>> job.run_command is None  # a queue has it
            True
        """
        return self._site.run_command(self.id)

    def __repr__(self) -> str:
        return f"<Job {self.id}: {self.spec.items_total} items, {self._site.descriptor.uri}>"

    # ---- looking ------------------------------------------------------------------------------------------------

    def progress(self) -> Counts:
        """The job in numbers, from names in the store alone: the queue is not asked.

        Example:
            >>> job.progress().succeeded
            2
        """
        return self._ledger.counts()

    def status(self, consumption: bool = True, *, running: bool = False) -> Status:
        """What became of the items so far, from names in the store and the queue's own figures.

        Args:
            consumption: Whether to read a few records for what items take of CPUs and memory, and what machines have
                reported.
            running: Whether to count items that have ended in running chunks, too: workers write them down once a
                minute. Otherwise a chunk's items count when it is done.

        Raises:
            CloudError: The store or the queue cannot be asked.

        Example:
            >>> job.status().state
            'finished'
        """
        status, snapshot = read_status(self._site, self._ledger, self.spec, consumption=consumption)
        return self._running.added(status, snapshot.waiting) if running and not status.ended else status

    def _known(self) -> list[ArrayState]:
        return known_arrays(self._site, self.spec)

    def summary(self, status: Status | None = None) -> Summary:
        """Figures added up from every record. `status` spares counting the reclaims again.

        Example:
            >>> job.summary().failed
            1
        """
        reclaims = status.reclaims if status else self._ledger.counts().reclaims
        return summarise(self._ledger, self.spec, reclaims)

    def results(self, failed_only: bool = False) -> Iterator[Outcome]:
        """The outcome of every item that has one, in the items' order, as a stream.

        Example:
            >>> [outcome.output for outcome in job.results() if outcome.status == "succeeded"]
            ['s3://...', 's3://...']
        """
        return (o for o in self._ledger.outcomes() if not failed_only or o.status == "failed")

    # ---- waiting ------------------------------------------------------------------------------------------------

    def wait(
        self,
        *,
        repair: bool = True,
        poll_seconds: float | None = None,
        on_status: Callable[[Status], None] = lambda status: None,
        log: Log = quiet,
    ) -> Status:
        """Watch until the job ends. It always does: what the cloud has lost is enqueued again, within bounds. In a
        store of `tidemill run` it ends as `lost` when no run works on it; `run_command` continues it.

        Args:
            repair: Enqueue lost deliveries again. Otherwise the job ends as `lost` when only they are left.
            poll_seconds: Seconds between looks at first, up to 15 while nothing changes. By default 2, and more for a
                job of many chunks, because each look is a listing that costs money.
            on_status: Called with every status, which counts items of running chunks.
            log: Called with each repair and outage, as a sentence.

        Returns:
            The last status.

        Raises:
            CloudError: The store or the cloud refused to be asked many times in a row.

        Example:
            >>> job.wait().state
            'finished'
        """
        repairs = _Repairs(self, log)
        store, last, stopped = self._site.store, None, False
        quickest = pause = POLL_SECONDS if poll_seconds is None else poll_seconds
        while True:
            listings = store.listings
            status = self._patient_status(pause, log)
            on_status(status)
            if status.spent and status.spent.reached and not stopped and not status.ended:
                # Workers see it too; what still waits is ended here, without a machine for it.
                stopped = True
                self._end(f"max_usd: {status.spent.words()} are spent", status.rounds, status.spent.max_usd)
            if status.chunks.lost and repair and not status.run_command and repairs.worth_it(status):
                repairs.enqueue(status)
            elif status.ended:
                return status
            pause = quickest if status != last else min(pause * 1.5, max(quickest, SLOWEST_POLL_SECONDS))
            if poll_seconds is None and store.is_object_store:
                pause = max(pause, LISTING_SECONDS * (store.listings - listings))
            last = status
            time.sleep(pause)

    def _patient_status(self, pause: float, log: Log) -> Status:
        for outage in range(1, OUTAGES + 1):
            try:
                return self.status(consumption=False, running=True)
            except StoreDeniedError:
                raise
            except CloudError as error:
                if outage == OUTAGES:
                    raise
                log(f"{error} Asking again.")
                time.sleep(pause)
        raise AssertionError("unreachable")

    # ---- ending, and running on ---------------------------------------------------------------------------------

    def cancel(self, reason: str = BY_ITS_USER) -> int:
        """Stop the job: workers stop, what is queued does not run, what is finished stays.

        Returns:
            How many arrays were ended; 0 as well for a job that had finished, which stays finished.

        Example:
            >>> job = pipeline.submit(["sleep", "{index}"], ["s3://raw/8.jpg", "s3://raw/9.jpg"], queue="cpu")
            >>> job.cancel("the wrong list")
            1
        """
        return 0 if self._ledger.counts().finished else self._end(reason)

    def _end(self, reason: str, rounds: int | None = None, max_usd: float | None = None) -> int:
        """End the first so many rounds, or all there are."""
        backend = self._site.backend
        covered = self._ledger.cancel(backend.user(), reason, rounds, max_usd)
        return backend.cancel([array for array in self._known() if round_of(array.name) < covered], reason)

    def resume(self, max_usd: float | None = None) -> Sent:
        """Enqueue again what the cloud will not deliver; of a cancelled job, all that is not done.

        Args:
            max_usd: What the job may cost from now on, all rounds together; None keeps the current limit.

        Example:
            >>> job.resume().chunks  # nothing was lost
            0
        """
        return replace(resume(self._site, self.spec, max_usd), run_command=self.run_command)

    def retry(
        self, items: Collection[int] | None = None, code: str | Path | None = None, max_usd: float | None = None
    ) -> Sent:
        """Run items that have an outcome again; the new outcome replaces the old one.

        Args:
            items: Indexes; None for every item that failed.
            code: A folder of code that they run with from now on; None for that of the newest round.
            max_usd: What the job may cost from now on, all rounds together; None keeps the current limit.

        Raises:
            CallerError: An item that the job does not have, or that has no outcome yet; a folder that cannot be packed.

        Example:
            >>> job.retry().items
            1
        """
        packed = None if code is None else pack(code)
        if packed is not None:
            upload(self._site.store, self.id, packed)
        sent = retry(self._site, self.spec, items, packed and packed.sha256, max_usd)
        return replace(sent, run_command=self.run_command)

    def retry_dead(self) -> Sent:
        """Enqueue again what the queue has put aside because it was delivered as often as it may be (dead letters).

        Example:
            >>> job.retry_dead().chunks  # nothing was put aside
            0
        """
        return retry_dead(self._site, self.spec)

    @property
    def cancelled(self) -> bool:
        """Whether the job has been cancelled, by a person or at its limit.

        Example:
            >>> job.cancelled
            False
        """
        return self._ledger.is_cancelled()

    # ---- logs ---------------------------------------------------------------------------------------------------

    def logs(
        self,
        item: int | None = None,
        worker: bool = False,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        text: str | None = None,
        follow: bool = False,
    ) -> Iterator[LogLine]:
        """What the items printed, oldest first.

        Args:
            item: Only this item.
            worker: Also what the worker itself says.
            since: Only lines of this time and later.
            until: Only lines of this time and before.
            text: Only lines that hold this, case as typed.
            follow: Continue with new lines until the job ends; `until` has no effect then.

        Raises:
            CallerError: The job has no such item.

        Example:
            >>> [line.said for line in job.logs(item=1)]
            ['opening s3://raw/1.jpg', 'ValueError: no']
        """
        if item is not None and not 0 <= item < self.spec.items_total:
            raise CallerError.about("item", item, f"from 0 to {self.spec.items_total - 1}", "Give an item's index.")
        wanted = LineFilter(item, worker, since, until, text)
        read = partial(read_lines, self._site, self._ledger, self.spec)
        return follow_lines(wanted, read, lambda: self.status().ended) if follow else read(wanted)


class _Repairs:
    """Enqueues lost deliveries again, until that brings nothing."""

    def __init__(self, job: Job, log: Log) -> None:
        self._job, self._log = job, log
        self._fruitless = 0
        self._done = -1

    def worth_it(self, status: Status) -> bool:
        return self._fruitless < FRUITLESS_REPAIRS or status.chunks.done > self._done

    def enqueue(self, status: Status) -> None:
        """Enqueue what a status calls lost, if that is still so. Of all watchers one does it: the others find another
        round and look again."""
        job, snapshot = self._job, self._job._ledger.snapshot()
        lost = [chunk for chunk in status.chunks.lost if chunk in snapshot.waiting]
        if snapshot.counts.rounds != status.rounds or snapshot.counts.cancelled or not lost:
            return
        sent = send_again(job._site, job.spec, snapshot, lost)
        if sent is None:
            return
        self._fruitless = 1 if status.chunks.done > self._done else self._fruitless + 1
        self._done = status.chunks.done
        self._log(f"{len(lost)} lost deliveries ({status.note}) are enqueued again as round {sent.round}.")
