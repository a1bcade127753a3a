"""Watching a job until it ends: looks at growing intervals, and repairs of what the cloud has lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidemill.client.rounds.memory import too_small
from tidemill.client.rounds.rounds import send_again, send_larger
from tidemill.client.site import Log
from tidemill.client.watch.live import showing
from tidemill.client.watch.status import Status
from tidemill.client.watch.watched import WatchedJob
from tidemill.clouds.account import ignore
from tidemill.errors import CloudError, StoreDeniedError
from tidemill.figures import counted
from tidemill.ledger import Ledger, Listing

POLL_SECONDS = 2.0
SLOWEST_POLL_SECONDS = 15.0
LISTING_SECONDS = 0.4
"""Pause per listing that a poll takes: an hour takes 9,000 listings at most, which cost 0.045 USD."""
FRUITLESS_REPAIRS = 3
"""After this many repairs that finish no chunk, `wait` gives up."""
OUTAGES = 10
"""Polls in a row that the store or the cloud may refuse before `wait` gives up."""


@dataclass(frozen=True, kw_only=True)
class WaitRequest:
    """How a caller waits for a job.

    Attributes:
        repair: Enqueue lost deliveries again. Otherwise the job ends as `lost` when only they are left.
        poll_seconds: Seconds between looks at first, up to 15 while nothing changes. By default 2, and more for a job
            of many chunks, because each look is a listing that costs money.
        on_status: Called with every status, which counts items of running chunks.
        progress: Show how the job goes, in a notebook, on a terminal or as lines; None for the first two only.
        log: Called with each repair and outage, as a sentence.
    """

    repair: bool = True
    poll_seconds: float | None = None
    on_status: Callable[[Status], None] = lambda status: None
    progress: bool | None = False
    log: Log = ignore


def wait(job: WatchedJob, asked: WaitRequest) -> Status:
    """See `Job.wait`."""
    last: tuple[Status, Listing] | None = None
    with showing(job.spec.job, asked.progress) as show:
        for last in watch(job, repair=asked.repair, poll_seconds=asked.poll_seconds, log=asked.log):
            asked.on_status(last[0])
            show(last[0])
    assert last is not None, "a watch begins with a look"
    return job.tell(*last, given_up=True)


def watch(job: WatchedJob, *, repair: bool, poll_seconds: float | None, log: Log) -> Iterator[tuple[Status, Listing]]:
    """Each look at a job, the last one when it has ended. See `Job.wait`."""
    repairs, others = Repairs(job, log), dict[str, Repairs]()
    store, last, stopped = job.site.store, None, False
    quickest = pause = POLL_SECONDS if poll_seconds is None else poll_seconds
    while True:
        listings = store.listings
        status, listing = _patient_look(job, pause, log)
        listings = store.listings - listings
        yield status, listing
        if status.spent and status.spent.reached and not stopped and not status.ended:
            # Workers see it too; what still waits is ended here, without a machine for it.
            stopped = True
            job.end(f"max_usd: {status.spent.words()} are spent", status.rounds, status.spent.max_usd)
        if status.chunks.lost and repair and not status.run_command and repairs.worth_it(status):
            repairs.enqueue(status)
        elif status.ended and not (repair and (_mend(job, status, others, log) or _grow(job, status, listing, log))):
            return
        pause = quickest if status != last else min(pause * 1.5, max(quickest, SLOWEST_POLL_SECONDS))
        if poll_seconds is None and store.is_object_store:
            pause = max(pause, LISTING_SECONDS * listings)
        last = status
        time.sleep(pause)


def _mend(job: WatchedJob, status: Status, repairs: dict[str, Repairs], log: Log) -> bool:
    """Enqueue again what jobs have lost that a job waits for. False when that has brought nothing, or nothing can."""
    mended = False
    for waited in status.waits_for:
        other = WatchedJob(job.site, Ledger(job.site.store, waited.job).spec())
        seen, _ = other.look()
        repair = repairs.setdefault(waited.job, Repairs(other, log))
        if seen.chunks.lost and not seen.run_command and repair.worth_it(seen):
            repair.enqueue(seen)
            mended = True
        mended = mended or _mend(other, seen, repairs, log)
    return mended


def _grow(job: WatchedJob, status: Status, listing: Listing, log: Log) -> bool:
    """Enqueue items that were killed for memory with more of it, if their job allows that. True when it is not over."""
    if job.spec.memory_max_mib is None or status.state != "failed":
        return False
    wanted, memory = too_small(job.ledger, job.spec, listing)
    if not wanted:
        return False
    if sent := send_larger(job.site, job.spec, listing, wanted, memory):
        log(f"{counted(sent.items, 'item')} ran out of memory: round {sent.round} gives each {memory} MiB.")
    return True


def _patient_look(job: WatchedJob, pause: float, log: Log) -> tuple[Status, Listing]:
    for outage in range(1, OUTAGES + 1):
        try:
            return job.look(running=True)
        except StoreDeniedError:
            raise
        except CloudError as error:
            if outage == OUTAGES:
                raise
            log(f"{error} Asking again.")
            time.sleep(pause)
    raise AssertionError("unreachable")


class Repairs:
    """Enqueues lost deliveries again, until that brings nothing."""

    def __init__(self, job: WatchedJob, log: Log) -> None:
        self._job, self._log = job, log
        self._fruitless = 0
        self._done = -1

    def worth_it(self, status: Status) -> bool:
        return self._fruitless < FRUITLESS_REPAIRS or status.chunks.done > self._done

    def enqueue(self, status: Status) -> None:
        """Enqueue what a status calls lost, if that is still so. Of all watchers one does it: the others find another
        round and look again."""
        job, listing = self._job, self._job.ledger.listing()
        lost = [chunk for chunk in status.chunks.lost if chunk in listing.waiting]
        if listing.counts.rounds != status.rounds or listing.counts.cancelled or not lost:
            return
        sent = send_again(job.site, job.spec, listing, lost)
        if sent is None:
            return
        self._fruitless = 1 if status.chunks.done > self._done else self._fruitless + 1
        self._done = status.chunks.done
        self._log(f"{len(lost)} lost deliveries ({status.note}) are enqueued again as round {sent.round}.")
