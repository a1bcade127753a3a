"""What a job's items printed, for programs and for the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tidemill.backends import LogLine, ignore
from tidemill.client.site import Log, Site
from tidemill.client.waiting import Watched
from tidemill.errors import CallerError
from tidemill.job import JobSpec
from tidemill.ledger import Ledger

if TYPE_CHECKING:
    from tidemill.client.download_logs import LogDownload


class Logged:
    """The part of a `Job` that shows its log."""

    spec: JobSpec
    _site: Site
    _ledger: Ledger
    _watched: Watched

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
        say: Log = ignore,
    ) -> Iterator[LogLine]:
        """What the items printed, oldest first.

        With `text`, `regex`, `failed`, `group` or `limit` a whole job is searched by the cloud. AWS bills that search
        by the GB, and `say` is told the price.

        Args:
            item: Only this item.
            worker: Also what the worker itself says.
            since: Only lines of this time and later.
            until: Only lines of this time and before.
            text: Only lines that hold this, case as typed.
            regex: Only lines in which this regular expression of Python matches.
            failed: Only items that failed for good, so far. Lines are in order for each 200 items.
            group: Only failed items of this group, by its id. The same order.
            limit: At most so many lines.
            follow: Continue with new lines until the job ends; `until` and `limit` have no effect then.
            say: Is told what a person should know while they wait, such as what a search costs.

        Raises:
            CallerError: The job has no such item or group, or the expression is not one.

        Example:
            >>> [line.said for line in job.logs(item=1)]
            ['opening s3://raw/1.jpg', 'ValueError: no']
            >>> [line.said for line in job.logs(regex="^ValueError")]
            ['ValueError: no']
        """
        from tidemill.client.lines import choose_lines, follow_lines, read_lines

        wanted = choose_lines(self._ledger, self.spec, item=item, failed=failed, group=group)
        wanted = replace(wanted, worker=worker, since=since, until=until, text=text, regex=regex, limit=limit, say=say)
        if not follow:
            return read_lines(self._site, self._ledger, self.spec, wanted)
        wanted = replace(wanted, until=None, limit=None)
        read = partial(read_lines, self._site, self._ledger, self.spec, wanted)
        return follow_lines(self._site.backend, wanted.search(self.spec), read, self._has_ended)

    def _has_ended(self) -> bool:
        return self._watched.look(consumption=False, running=False)[0].ended

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
        say: Log = ignore,
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
        from tidemill.client.download_logs import MANY_ITEMS, download_logs
        from tidemill.client.lines import choose_lines

        wanted = choose_lines(self._ledger, self.spec, failed=failed, group=group)
        items = self.spec.items_total if wanted.items is None else len(wanted.items)
        if by == "item" and items > MANY_ITEMS and not any_number:
            fix = "Say --yes (any_number=True), or write one file per container: --by container."
            raise CallerError.about("items", items, f"{MANY_ITEMS} or less, for one file per item", fix)
        wanted = replace(wanted, worker=worker and by == "container", since=since, until=until, say=say)
        return download_logs(self._site.backend, self.spec, Path(folder), wanted, by)
