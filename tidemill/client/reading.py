"""What became of a job's items, for programs: values of a function, outcomes, a table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidemill.client.live import showing
from tidemill.client.waiting import Watched
from tidemill.job import JobSpec
from tidemill.ledger import Ledger, Outcome

if TYPE_CHECKING:
    from pandas import DataFrame

    from tidemill.backends.links import Links
    from tidemill.client.metrics import ItemMetrics
    from tidemill.client.report.model import JobReport
    from tidemill.explain import Explanation


class Readable:
    """The part of a `Job` that programs read."""

    id: str
    _watched: Watched
    _ledger: Ledger
    spec: JobSpec

    def explain(self) -> Explanation:
        """Why the job does not progress: the causes that hold, the one to look at first in front.

        Raises:
            CloudError: The store or the queue cannot be asked for the job's status. Whatever else this login may not
                see is listed as `unknown`.

        Example:
            >>> job.explain().kind
            'well'
        """
        from tidemill.client.explaining import explain_job

        return explain_job(self._watched.site, self._ledger, self.spec)

    def links(self) -> Links | None:
        """Addresses of the job's queue, lines and objects in the cloud's console; None where no cloud runs it.

        Example:
            >>> job.links().queue
            'https://us-west-2.console.aws.amazon.com/batch/home?region=us-west-2#queues/detail/arn:...'
        """
        from tidemill.backends.links import console_links

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
        return (o for o in self._outcomes(meta) if not failed_only or o.status == "failed")

    def _outcomes(self, meta: bool) -> Iterator[Outcome]:
        if not meta:
            return self._ledger.outcomes()
        from tidemill.client.export import with_meta
        from tidemill.ledger.paired import paired

        return with_meta(paired(self._ledger))

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
        from tidemill.client.frames import frame_of

        return frame_of(self.results(failed_only, meta=True), self.meta_keys())

    def meta_keys(self) -> list[str] | None:
        """Every key of the items' metadata, in the order in which they first appear; None when they are more than
        1,000.

        Example:
            >>> job.meta_keys()  # the items are plain URIs
            []
        """
        from tidemill.client.export import meta_keys
        from tidemill.ledger.paired import items_of

        return meta_keys(items_of(self._ledger))

    def metrics(self) -> Iterator[ItemMetrics]:
        """What items have printed, as the job's `metrics` look for it: every item with a value, in the items' order.

        Raises:
            CallerError: The job looks for no metrics.

        Example:
            >>> job = pipeline.train(["python3", "train.py"], queue="cpu", metrics={"loss": "loss: ([0-9.]+)"})
            >>> [item.metrics["loss"].lowest for item in job.metrics()]  # nothing has run yet
            []
        """
        from tidemill.client.metrics import read_metrics

        return read_metrics(self._ledger, self.spec)

    def report(self, *, everything: bool = False) -> JobReport:
        """What the job's records say about time, resources, machines, failures and cost, now or at its end. The heads
        of records are read, and at most 2,000 records with failed items.

        Args:
            everything: Read all records with failed items.

        Raises:
            CloudError: The store or the queue cannot be asked.

        Example:
            >>> job.report().succeeded
            2
        """
        from tidemill.client.report.make import make_report

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
        from tidemill.client.newer import newer_than_outcomes

        return list(newer_than_outcomes(self._ledger, self.spec))

    def values(self, *, return_exceptions: bool = False, progress: bool | None = None) -> Iterator[Any]:
        """What the job's function returned for each item, in the items' order, as soon as it is known.

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
        from tidemill.client.values import stream_values

        with showing(self.id, progress) as on_status:
            yield from stream_values(self._watched, return_exceptions=return_exceptions, on_status=on_status)
