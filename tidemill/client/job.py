"""A job that was submitted, seen from anywhere: everything is in the store and in the queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.client.journal import find_spec
from tidemill.client.plan.notification import tell_end
from tidemill.client.program import round_code
from tidemill.client.results.item_names import DEFAULT as DEFAULT_NAME
from tidemill.client.rounds.rounds import RoundResult, resume, retry, retry_dead
from tidemill.client.site import Log, Site
from tidemill.client.watch.live import showing
from tidemill.client.watch.observation import BY_ITS_USER
from tidemill.client.watch.running_items import RunningItems
from tidemill.client.watch.status import Status, Summary, summarise
from tidemill.client.watch.wait import WatchedJob, watch
from tidemill.job import JobSpec
from tidemill.ledger import Counts, Ledger, Listing, Outcome

if TYPE_CHECKING:
    from pandas import DataFrame

    from tidemill.client.report.model import JobReport
    from tidemill.client.results.download_logs import LogDownload
    from tidemill.client.results.fetch import FetchReport, OnReport
    from tidemill.client.results.metrics import ItemMetrics
    from tidemill.clouds.account import LogLine
    from tidemill.clouds.links import Links
    from tidemill.explain import Explanation


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
        self.output = spec.output_prefix(site.store.uri)
        """URI under which the items' outputs go."""
        self._site = site
        self._ledger = Ledger(site.store, job, spec.manifest)
        self._watched = WatchedJob(site, self._ledger, spec, RunningItems(self._ledger))

    @property
    def run_command(self) -> str | None:
        """Command that runs the job where no cloud does: in a store of `tidemill run`. Else None.

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
        """Status of the items so far, from names in the store and the queue's own figures.

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
        from tidemill.client.results.fetch import FetchRequest, fetch

        wish = FetchRequest(Path(folder), items, failed, name, logs, state, overwrite)
        return fetch(self._site, self._ledger, self.spec, wish, on_report)

    # ---- results ------------------------------------------------------------------------------------------------

    def explain(self) -> Explanation:
        """Why the job does not progress: the causes that hold, the one to look at first in front.

        Raises:
            CloudError: The store or the queue cannot be asked for the job's status. Whatever else this login may not
                see is listed as `unknown`.

        Example:
            >>> job.explain().kind
            'well'
        """
        from tidemill.client.watch.explain import explain_job

        return explain_job(self._watched.site, self._ledger, self.spec)

    def links(self) -> Links | None:
        """Addresses of the job's queue, lines and objects in the cloud's console; None where no cloud runs it.

        Example:
            >>> job.links().queue
            'https://us-west-2.console.aws.amazon.com/batch/home?region=us-west-2#queues/detail/arn:...'
        """
        from tidemill.clouds.links import console_links

        return console_links(self._watched.site.descriptor, self.spec, datetime.now(UTC))

    def results(self, failed_only: bool = False, *, meta: bool = False) -> Iterator[Outcome]:
        """The outcome of every item that has one, in the items' order, as a stream.

        Args:
            failed_only: Only items that failed.
            meta: Fill in each item's metadata, for which the list of items is read too.

        Example:
            >>> [outcome.output for outcome in job.results() if outcome.status == "succeeded"]
            ['s3://...', 's3://...']
        """
        from tidemill.client.results.export import outcomes_of

        return outcomes_of(self._ledger, failed_only=failed_only, meta=meta)

    def outcomes(self) -> Iterator[Outcome]:
        """The outcome of every item that has one, with the item's metadata, in the items' order, as a stream.

        Example:
            >>> [outcome.meta for outcome in job.outcomes()]  # the items are plain URIs
            [None, None, None]
        """
        return self.results(meta=True)

    def to_pandas(self, failed_only: bool = False) -> DataFrame:
        """The outcomes as a DataFrame: a row per item that has one, a column per field of `Outcome`.

        The index, `item`, is the item's. `meta.KEY` are the columns of metadata (one column `meta` of dicts where there
        are more than 1,000 keys). `value` holds what a function returned where that is short JSON; `values` reads all.

        Args:
            failed_only: Only items that failed.

        Raises:
            CallerError: pandas is not installed.

        Example:
            >>> job.to_pandas().groupby("status").wall_seconds.mean().to_dict()
            {'failed': 0.5, 'succeeded': 0.5}
        """
        from tidemill.client.results.data_frame import frame_of

        return frame_of(self.results(failed_only, meta=True), self.meta_keys())

    def meta_keys(self) -> list[str] | None:
        """Every key of the items' metadata, in the order in which they first appear; None when they are more than
        1,000.

        Example:
            >>> job.meta_keys()  # the items are plain URIs
            []
        """
        from tidemill.client.results.export import meta_keys
        from tidemill.ledger.outcome_items import items_of

        return meta_keys(items_of(self._ledger))

    def metrics(self) -> Iterator[ItemMetrics]:
        """Metrics that the job's `metrics` find in the output: every item with a value, in the items' order.

        Raises:
            CallerError: The job looks for no metrics.

        Example:
            >>> job = pipeline.train(["python3", "train.py"], queue="cpu", metrics={"loss": "loss: ([0-9.]+)"})
            >>> [item.metrics["loss"].lowest for item in job.metrics()]  # nothing has run yet
            []
        """
        from tidemill.client.results.metrics import read_metrics

        return read_metrics(self._ledger, self.spec)

    def report(self, *, everything: bool = False) -> JobReport:
        """Report on the job's time, resources, machines, failures and cost, now or at its end. Reads the heads of
        records, and at most 2,000 records with failed items.

        Args:
            everything: Read all records with failed items.

        Raises:
            CloudError: The store or the queue cannot be asked.

        Example:
            >>> job.report().succeeded
            2
        """
        from tidemill.client.results.make_report import make_report

        return make_report(self._watched, everything)

    def write_report(self, place: str | None = None, *, redact: bool = False, everything: bool = False) -> str:
        """Write the report as one HTML page, which needs no network and runs no script.

        Args:
            place: A file, or a URI such as `s3://bucket/tiles.html`; None for `<job>.html` in the current folder.
            redact: Leave out the command, URIs, users and messages.
            everything: See `report`.

        Returns:
            Where it is.

        Raises:
            CallerError: A place that nothing can be written to.
            CloudError: See `report`; the page cannot be written there.

        Example:
            >>> job.write_report("tiles.html")
            'tiles.html'
        """
        from tidemill.client.report.page import page_of, redacted
        from tidemill.client.report.save import check_place, save

        place = place or f"{self.id}.html"
        check_place(place)
        report = self.report(everything=everything)
        return save(self._watched.site, place, page_of(redacted(report) if redact else report))

    def stale(self) -> list[str]:
        """A sentence for each file of this machine that is newer than outcomes which it was used for: of the program,
        or of the inputs. A cloud's job holds what it runs, so there are none.

        Example:
            >>> job.stale()
            []
        """
        if not self._watched.site.local:
            return []
        from tidemill.client.program.newer_files import newer_than_outcomes

        return list(newer_than_outcomes(self._ledger, self.spec))

    def values(self, *, return_exceptions: bool = False, progress: bool | None = None) -> Iterator[Any]:
        """Yield the function's value for each item, in the items' order, as soon as it is known.

        Waits for what still runs. Values are read a few at a time, however many there are. Items of a program have
        none: theirs are None.

        Args:
            return_exceptions: Yield the failure of an item in place of its value; otherwise the first one is raised.
            progress: Show how the job goes; by default in a notebook and on a terminal.

        Raises:
            ItemFailedError: An item failed; its cause is the traceback on the machine.
            JobEndedError: The job was cancelled, or its rest is lost.

        Example:
            >>> list(job.values())
            Traceback (most recent call last):
            tidemill.errors.ItemFailedError: Item 1 of tiles-..., 's3://raw/1.jpg', failed (exit): ValueError: no. ...
        """
        from tidemill.client.results.values import stream_values

        with showing(self.id, progress) as on_status:
            yield from stream_values(self._watched, return_exceptions=return_exceptions, on_status=on_status)

    def logs(
        self,
        item: int | None = None,
        worker: bool = False,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        text: str | None = None,
        regex: str | None = None,
        failed: bool = False,
        group: str | None = None,
        limit: int | None = None,
        follow: bool = False,
        say: Log = quiet,
    ) -> Iterator[LogLine]:
        """Lines that the items printed, oldest first.

        With `text`, `regex`, `failed`, `group` or `limit` a whole job is searched by the cloud. AWS bills that search
        by the GB, and `say` is told the price.

        Args:
            item: Only this item.
            worker: Also lines of the worker itself.
            since: Only lines of this time and later.
            until: Only lines of this time and before.
            text: Only lines that hold this, case as typed.
            regex: Only lines in which this regular expression of Python matches.
            failed: Only items that failed for good, so far. Lines are in order for each 200 items.
            group: Only failed items of this group, by its id. The same order.
            limit: At most so many lines.
            follow: Continue with new lines until the job ends; `until` and `limit` have no effect then.
            say: Takes remarks for a person who waits, such as the price of a search.

        Raises:
            CallerError: The job has no such item or group, or the expression is not one.

        Example:
            >>> [line.said for line in job.logs(item=1)]
            ['opening s3://raw/1.jpg', 'ValueError: no']
            >>> [line.said for line in job.logs(regex="^ValueError")]
            ['ValueError: no']
        """
        from tidemill.client.results.log_lines import choose_lines, job_lines

        wanted = choose_lines(self._ledger, self.spec, item=item, failed=failed, group=group)
        wanted = replace(wanted, worker=worker, since=since, until=until, text=text, regex=regex, limit=limit, say=say)
        return job_lines(self._watched, wanted, follow=follow)

    def download_logs(
        self,
        folder: str | Path,
        *,
        by: str = "item",
        worker: bool = False,
        since: datetime | None = None,
        until: datetime | None = None,
        failed: bool = False,
        group: str | None = None,
        any_number: bool = False,
        say: Log = quiet,
    ) -> LogDownload:
        """Write what the items printed into files: `<index>.log` for each item, oldest line first.

        Each line has its time (UTC), its attempt, its stream and what was said. The same call again continues a
        download that was interrupted, and adds new lines to one that was not.

        Args:
            folder: Where the files go.
            by: `item`; or `container` for one file per container, whose lines name item and attempt.
            worker: Also what the worker itself says, in files by container.
            since: Only lines of this time and later.
            until: Only lines of this time and before.
            failed: Only items that failed for good, so far.
            group: Only failed items of this group, by its id.
            any_number: Write more than 20,000 files by item, too.
            say: As in `logs`.

        Raises:
            CallerError: There are more items than that, the folder holds other logs or cannot be written, or there is
                no such group.

        Example:
            >>> job.download_logs("logs", by="container").lines
            2
        """
        from tidemill.client.results.download_logs import check_number, download_logs
        from tidemill.client.results.log_lines import choose_lines

        wanted = choose_lines(self._ledger, self.spec, failed=failed, group=group)
        if by == "item" and not any_number:
            check_number(self.spec, wanted)
        wanted = replace(wanted, worker=worker and by == "container", since=since, until=until, say=say)
        return download_logs(self._site.account, self.spec, Path(folder), wanted, by)

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
        return self._site.backend(self.spec.queue).pause(self.id)

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

    def resume(self, max_usd: float | None = None) -> RoundResult:
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
    ) -> RoundResult:
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
            from tidemill.client.report.failures import items_of_group

            items = items_of_group(self.id, self.results(failed_only=True), group)
        from tidemill.client.program.git_code import check_libs

        check_libs(libs, code)
        other = None if code is None else round_code.send(self._site, self.id, code, libs, log)
        sent = retry(self._site, self.spec, items, other, max_usd)
        return replace(sent, run_command=self.run_command)

    def retry_dead(self) -> RoundResult:
        """Enqueue again what the queue has put aside because it was delivered as often as it may be (dead letters).

        Example:
            >>> job.retry_dead().chunks  # nothing was put aside
            0
        """
        return retry_dead(self._site, self.spec)

    @property
    def cancelled(self) -> bool:
        """True if the job has been cancelled, by a person or at its limit.

        Example:
            >>> job.cancelled
            False
        """
        return self._ledger.is_cancelled()


def find_job(site: Site, job: str) -> Job:
    """A job by its id, or the newest of a name.

    Raises:
        CallerError: It is neither, or there is no such job.
    """
    spec = find_spec(site.store, job)
    return Job(site, spec.job, spec)
