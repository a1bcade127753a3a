"""A job that was submitted, seen from anywhere: everything is in the store and in the queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidemill.client.keywords import naming_mistakes, taking
from tidemill.client.results.data_frame import frame_of
from tidemill.client.results.export import meta_keys, outcomes_of
from tidemill.client.results.metrics import ItemMetrics, read_metrics
from tidemill.client.results.requests import FetchRequest, LogDownloadRequest, LogRequest
from tidemill.client.results.values import stream_values
from tidemill.client.rounds.rounds import RetryRequest, RoundResult, resume, retry, retry_dead
from tidemill.client.site import Site
from tidemill.client.watch.observation import BY_ITS_USER
from tidemill.client.watch.status import Status, Summary, summarise
from tidemill.client.watch.wait import WaitRequest, wait
from tidemill.client.watch.watched import WatchedJob
from tidemill.clouds.account import LogLine
from tidemill.clouds.links import Links, console_links
from tidemill.explain import Explanation
from tidemill.job import JobSpec
from tidemill.ledger import Counts, Outcome
from tidemill.ledger.outcome_items import items_of

if TYPE_CHECKING:
    from pandas import DataFrame

    from tidemill.client.report.model import JobReport
    from tidemill.client.results.download_logs import LogDownload
    from tidemill.client.results.fetch_report import FetchReport


@naming_mistakes
class Job:
    """A job of a pipeline. Made by `Pipeline.submit` and `Pipeline.job`. Every method may raise `CloudError`: the store
    or the queue cannot be asked. The same call may be made again.

    Example:
        >>> job = pipeline.job("tiles")
        >>> job.status().succeeded
        2
    """

    def __init__(self, site: Site, spec: JobSpec) -> None:
        self.id = spec.job
        self.spec = spec
        self.enqueued = 0
        """Arrays that this submit handed to the cloud."""
        self.output = spec.output_prefix(site.store.uri)
        """URI under which the items' outputs go."""
        self._watched = WatchedJob(site, spec)

    @property
    def run_command(self) -> str | None:
        """Command that runs the job where no cloud does: in a store of `tidemill run`. Else None.

        Example:
            >>> job.run_command is None  # a queue has it
            True
        """
        return self._watched.site.run_command(self.id)

    def __repr__(self) -> str:
        return f"<Job {self.id}: {self.spec.items_total} items, {self._watched.site.descriptor.uri}>"

    def progress(self) -> Counts:
        """The job in numbers, from names in the store alone. Items count when their chunk is committed; see `status`.

        Example:
            >>> job.progress().succeeded
            2
        """
        return self._watched.ledger.counts()

    def status(self, consumption: bool = True, *, running: bool = True) -> Status:
        """Status of the items so far, from names in the store and the queue's own figures.
        With `consumption`, a few records tell what items take of CPUs and memory, and machines what they have reported.
        With `running`, items of running chunks count, too, as workers write them down: in a cloud once a minute.

        Example:
            >>> job.status().state
            'failed'
        """
        return self._watched.tell(*self._watched.look(consumption=consumption, running=running))

    def summary(self, status: Status | None = None) -> Summary:
        """Figures added up from every record. `status` spares counting the reclaims again.

        Example:
            >>> job.summary().failed
            1
        """
        return summarise(self._watched.ledger, self.spec, status)

    @taking(FetchRequest)
    def fetch(self, request: FetchRequest) -> FetchReport:
        """Bring the items' outputs down and say what is there and what is missing. Repeated, it brings what is
        missing: a file that has the size and the time of its object stays. A file that no fetch wrote, or that was
        changed since, is not replaced but a problem of the report. See `FetchRequest`.

        Raises:
            CallerError: A wrong argument, a full disk, a folder that cannot be written.

        Example:
            >>> job.fetch("results", failed=True, logs=True).logs  # items that printed something
            1
        """
        from tidemill.client.results.fetch import fetch

        return fetch(self._watched, request)

    def explain(self) -> Explanation:
        """Why the job does not progress: the causes that hold, the one to look at first in front. Whatever this login
        may not see besides the job's status is listed as `unknown`.

        Example:
            >>> job.explain().kind
            'well'
        """
        return self._watched.explain()

    def links(self) -> Links | None:
        """Addresses of the job's queue, lines and objects in the cloud's console; None where no cloud runs it.

        Example:
            >>> job.links().queue
            'https://us-west-2.console.aws.amazon.com/batch/home?region=us-west-2#queues/detail/arn:...'
        """
        return console_links(self._watched.site.descriptor, self.spec, datetime.now(UTC))

    def results(self, failed_only: bool = False, *, meta: bool = False) -> Iterator[Outcome]:
        """The outcome of every item that has one, or only of those that failed, in the items' order, as a stream. With
        `meta`, each has its item's metadata, for which the list of items is read too.

        Example:
            >>> [outcome.output for outcome in job.results() if outcome.status == "succeeded"]
            ['s3://...', 's3://...']
        """
        return outcomes_of(self._watched.ledger, failed_only=failed_only, meta=meta)

    def outcomes(self) -> Iterator[Outcome]:
        """The outcome of every item that has one, with the item's metadata, in the items' order, as a stream.

        Example:
            >>> [outcome.meta for outcome in job.outcomes()]  # the items are plain URIs
            [None, None, None]
        """
        return self.results(meta=True)

    def to_pandas(self, failed_only: bool = False) -> DataFrame:
        """The outcomes as a DataFrame of pandas: a row per item that has one, a column per field of `Outcome`.
        The index, `item`, is the item's. `meta.KEY` are the columns of metadata (one column `meta` of dicts where there
        are more than 1,000 keys). `value` holds what a function returned where that is short JSON; `values` reads all.
        With `failed_only` there are only items that failed.

        Example:
            >>> job.to_pandas().groupby("status").wall_seconds.mean().to_dict()
            {'failed': 0.5, 'succeeded': 0.5}
        """
        return frame_of(self.results(failed_only, meta=True), self.meta_keys())

    def meta_keys(self) -> list[str] | None:
        """Every key of the items' metadata, in the order of their first items; None for more than 1,000.

        Example:
            >>> job.meta_keys()  # the items are plain URIs
            []
        """
        return meta_keys(items_of(self._watched.ledger))

    def metrics(self, *, values: bool = False) -> Iterator[ItemMetrics]:
        """Metrics that the job's `metrics` find in the output: every item with a value, in the items' order, with the
        kept `values` themselves on request. A job that looks for none raises `CallerError`.

        Example:
            >>> job = pipeline.train(["python3", "train.py"], queue="cpu", metrics={"loss": "loss: ([0-9.]+)"})
            >>> [item.metrics["loss"].lowest for item in job.metrics()]  # nothing has run yet
            []
        """
        return read_metrics(self._watched.ledger, self.spec, values=values)

    def report(self, *, everything: bool = False) -> JobReport:
        """Report on the job's time, resources, machines, failures and cost, now or at its end. Reads the heads of
        records, and at most 2,000 records with failed items, or `everything`.

        Example:
            >>> job.report().succeeded
            2
        """
        from tidemill.client.results.make_report import make_report

        return make_report(self._watched, everything)

    def write_report(self, place: str | None = None, *, redact: bool = False, everything: bool = False) -> str:
        """Write the report as one HTML page, which needs no network and runs no script. Returns where it is.

        Args:
            place: A file, or a URI such as `s3://bucket/tiles.html`; None for `<job>.html` in the current folder.
            redact: Leave out the command, URIs, users and messages.
            everything: See `report`.

        Example:
            >>> job.write_report("tiles.html")
            'tiles.html'
        """
        from tidemill.client.results.make_report import write_report

        return write_report(self._watched, place or f"{self.id}.html", redact=redact, everything=everything)

    def stale(self) -> list[str]:
        """A sentence for each file of this machine, of the program or the inputs, that is newer than outcomes which it
        was used for. A cloud's job holds what it runs, so there are none.

        Example:
            >>> job.stale()
            []
        """
        from tidemill.client.program.newer_files import newer_than_outcomes

        return list(newer_than_outcomes(self._watched.ledger, self.spec)) if self._watched.site.local else []

    def values(self, *, return_exceptions: bool = False, progress: bool | None = None) -> Iterator[Any]:
        """Yield the function's value for each item, in the items' order, as soon as a worker has written it down: at
        once on this machine, within a minute in a cloud. None for an item of a program. It reads a few at a time.

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
        return stream_values(self._watched, return_exceptions=return_exceptions, progress=progress)

    @taking(LogRequest)
    def logs(self, request: LogRequest) -> Iterator[LogLine]:
        """Lines that the items printed, oldest first. See `LogRequest`. With `text`, `regex`, `failed`, `group` or
        `limit` a whole job is searched by the cloud. AWS bills that search by the GB, and `say` is told the price.

        Raises:
            CallerError: The job has no such item or group, or the expression is not one.

        Example:
            >>> [line.said for line in job.logs(item=1)]
            ['opening s3://raw/1.jpg', 'ValueError: no']
            >>> [line.said for line in job.logs(regex="^ValueError")]
            ['ValueError: no']
        """
        from tidemill.client.results.log_lines import job_lines

        return job_lines(self._watched, request)

    @taking(LogDownloadRequest)
    def download_logs(self, request: LogDownloadRequest) -> LogDownload:
        """Write what the items printed into files: `<index>.log` for each item, oldest line first. Each line has its
        time (UTC), attempt, stream and what was said. The same call again continues a download that was interrupted,
        and adds new lines to one that was not. See `LogDownloadRequest`.

        Example:
            >>> job.download_logs("logs", by="container").lines
            2
        """
        from tidemill.client.results.download_logs import download_logs

        return download_logs(self._watched, request)

    @taking(WaitRequest)
    def wait(self, request: WaitRequest) -> Status:
        """Watch until the job ends, and return its last status. It always does: what the cloud has lost is enqueued
        again, within bounds. In a store of `tidemill run` it ends as `paused` when no run works on it; `run_command`
        continues it. See `WaitRequest`.

        Example:
            >>> job.wait().state
            'failed'
        """
        return wait(self._watched, request)

    def pause(self) -> bool:
        """End the work of this process on the job, in a pipeline of this machine: what is finished stays. Returns
        whether there was any. In a cloud there is none, and `cancel` ends a job.

        Example:
            >>> job.pause()
            False
        """
        return self._watched.site.backend(self.spec.queue).pause(self.id)

    def cancel(self, reason: str = BY_ITS_USER) -> int:
        """Stop the job: workers stop, what is queued does not run, what is finished stays. Returns how many arrays were
        ended; 0 as well for a job that had finished, which stays finished.

        Example:
            >>> job = pipeline.submit(["sleep", "{index}"], ["s3://raw/8.jpg", "s3://raw/9.jpg"], queue="cpu")
            >>> job.cancel("the wrong list")
            1
        """
        return self._watched.cancel(reason)

    def resume(self, max_usd: float | None = None) -> RoundResult:
        """Enqueue again what the cloud will not deliver; of a cancelled job, all that is not done. From now on the job
        may cost `max_usd`, all rounds together; None keeps the current limit.

        Example:
            >>> job.resume().chunks  # nothing was lost
            0
        """
        return replace(resume(self._watched.site, self.spec, max_usd), run_command=self.run_command)

    @taking(RetryRequest)
    def retry(self, request: RetryRequest) -> RoundResult:
        """Run items that have an outcome again; the new outcome replaces the old one. See `RetryRequest`.

        Raises:
            CallerError: An item or a group that the job does not have, or code that cannot be packed or fetched.

        Example:
            >>> job.retry().items
            1
        """
        return replace(retry(self._watched.site, self.spec, request), run_command=self.run_command)

    def retry_dead(self) -> RoundResult:
        """Enqueue again what the queue has put aside because it was delivered as often as it may be (dead letters).

        Example:
            >>> job.retry_dead().chunks  # nothing was put aside
            0
        """
        return retry_dead(self._watched.site, self.spec)

    @property
    def cancelled(self) -> bool:
        """True if the job has been cancelled, by a person or at its limit.

        Example:
            >>> job.cancelled
            False
        """
        return self._watched.ledger.is_cancelled()
