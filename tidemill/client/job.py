"""A job that was submitted, seen from anywhere: everything is in the store and in the queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.client import other_code
from tidemill.client.item_names import DEFAULT as DEFAULT_NAME
from tidemill.client.journal import find_spec
from tidemill.client.live import showing
from tidemill.client.logged import Logged
from tidemill.client.looking import BY_ITS_USER
from tidemill.client.reading import Readable
from tidemill.client.rounds import Sent, resume, retry, retry_dead
from tidemill.client.running import RunningItems
from tidemill.client.site import Log, Site
from tidemill.client.status import Status, Summary, summarise
from tidemill.client.telling import tell_end
from tidemill.client.waiting import Watched, watch
from tidemill.job import JobSpec
from tidemill.ledger import Counts, Ledger, Listing

if TYPE_CHECKING:
    from tidemill.client.fetch import FetchReport, OnReport


def quiet(text: str) -> None:
    """Says nothing."""


class Job(Readable, Logged):
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
        self._watched = Watched(site, self._ledger, spec, RunningItems(self._ledger))

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
        return self._told(*self._watched.look(consumption=consumption, running=running))

    def _told(self, status: Status, listing: Listing, *, given_up: bool = False) -> Status:
        """A status of a job that has ended says whether someone was told, and this is told now if no one was.
        `given_up` is whether no one repairs what is lost."""
        lost = given_up and status.state == "lost" and not status.run_command
        # Items of unfinished chunks count, where the status has them.
        counts = replace(listing.counts, succeeded=status.succeeded, failed=status.failed)
        listing = replace(listing, counts=counts)
        return replace(status, told=tell_end(self._site, self.spec, listing, lost=lost))

    def summary(self, status: Status | None = None) -> Summary:
        """Figures added up from every record. `status` spares counting the reclaims again.

        Example:
            >>> job.summary().failed
            1
        """
        reclaims = status.reclaims if status else self._ledger.counts().reclaims
        return summarise(self._ledger, self.spec, reclaims)

    def fetch(
        self,
        folder: str | Path,
        *,
        items: Collection[int] | None = None,
        failed: bool = False,
        name: str = DEFAULT_NAME,
        logs: bool = False,
        state: bool = False,
        overwrite: bool = False,
        on_report: OnReport = lambda report: None,
    ) -> FetchReport:
        """Bring the items' outputs down and say what is there and what is missing. Repeated, it brings what is
        missing: a file that has the size and the time of its object stays. A file that no fetch wrote, or that was
        changed since, is not replaced but a problem of the report.

        Args:
            folder: Where they go; it is created.
            items: Indexes; None for every item.
            failed: Only items that failed. They have no outputs, but logs.
            name: What names an item in the folder: text with `{stem}`, `{name}`, `{path}`, `{index}` or a key of the
                metadata. With `{ext}` at its end, an item with a single output file is that file, not a folder.
            logs: Bring what each item printed, too, as `logs/<name>.log`.
            state: Bring the newest saved state of each item, too, as `state/<name>/`.
            overwrite: Replace such files, too.
            on_report: Called a few times a second with what has come so far.

        Raises:
            CallerError: A wrong argument, a full disk, a folder that cannot be written.
            CloudError: The store refused or did not answer. The same call continues.

        Example:
            >>> job.fetch("results", failed=True, logs=True).logs  # items that printed something
            1
        """
        from tidemill.client.fetch import Wish, fetch

        wish = Wish(Path(folder), items, failed, name, logs, state, overwrite)
        return fetch(self._site, self._ledger, self.spec, wish, on_report)

    # ---- waiting ------------------------------------------------------------------------------------------------

    def wait(
        self,
        *,
        repair: bool = True,
        poll_seconds: float | None = None,
        on_status: Callable[[Status], None] = lambda status: None,
        progress: bool | None = False,
        log: Log = quiet,
    ) -> Status:
        """Watch until the job ends. It always does: what the cloud has lost is enqueued again, within bounds. In a
        store of `tidemill run` it ends as `lost` when no run works on it; `run_command` continues it.

        Args:
            repair: Enqueue lost deliveries again. Otherwise the job ends as `lost` when only they are left.
            poll_seconds: Seconds between looks at first, up to 15 while nothing changes. By default 2, and more for a
                job of many chunks, because each look is a listing that costs money.
            on_status: Called with every status, which counts items of running chunks.
            progress: Show how the job goes, in a notebook, on a terminal or as lines; None for the first two only.
            log: Called with each repair and outage, as a sentence.

        Returns:
            The last status.

        Raises:
            CloudError: The store or the cloud refused to be asked many times in a row.

        Example:
            >>> job.wait().state
            'finished'
        """
        looks = watch(self._watched, repair=repair, poll_seconds=poll_seconds, log=log)
        last: tuple[Status, Listing] | None = None
        with showing(self.id, progress) as show:
            for last in looks:
                on_status(last[0])
                show(last[0])
        assert last is not None, "a watch begins with a look"
        return self._told(*last, given_up=True)

    # ---- ending, and running on ---------------------------------------------------------------------------------

    def pause(self) -> bool:
        """End the work of this process on the job, in a pipeline of this machine: what is finished stays.

        Returns:
            Whether there was any. In a cloud there is none, and `cancel` ends a job.

        Example:
            >>> job.pause()
            False
        """
        return self._site.backend.pause(self.id)

    def cancel(self, reason: str = BY_ITS_USER) -> int:
        """Stop the job: workers stop, what is queued does not run, what is finished stays.

        Returns:
            How many arrays were ended; 0 as well for a job that had finished, which stays finished.

        Example:
            >>> job = pipeline.submit(["sleep", "{index}"], ["s3://raw/8.jpg", "s3://raw/9.jpg"], queue="cpu")
            >>> job.cancel("the wrong list")
            1
        """
        if self._ledger.counts().finished:
            return 0
        ended = self._watched.end(reason)
        if self.spec.notify:
            self._told(*self._watched.look(consumption=False, running=True))
        return ended

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
        self,
        items: Collection[int] | None = None,
        code: str | Path | None = None,
        max_usd: float | None = None,
        *,
        group: str | None = None,
        libs: Sequence[str | Path] = (),
        log: Log = quiet,
    ) -> Sent:
        """Run items that have an outcome again; the new outcome replaces the old one.

        Args:
            items: Indexes; None for every item that failed.
            code: What they run with from now on: a folder or a repository, as with `submit`; None for that of the
                newest round.
            max_usd: What the job may cost from now on, all rounds together; None keeps the current limit.
            group: In place of `items`: the id of a group that `tidemill failures` shows.
            libs: Folders that travel with `code`, each under its own name.
            log: Called with a sentence about the code.

        Raises:
            CallerError: An item that the job does not have, or that has no outcome yet; a group without items; code
                that cannot be packed or fetched.

        Example:
            >>> job.retry().items
            1
        """
        if group is not None:
            from tidemill.client.failures import items_of_group

            items = items_of_group(self.id, self.results(failed_only=True), group)
        from tidemill.client.git_code import check_libs

        check_libs(libs, code)
        other = None if code is None else other_code.send(self._site, self.id, code, libs, log)
        sent = retry(self._site, self.spec, items, other, max_usd)
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
