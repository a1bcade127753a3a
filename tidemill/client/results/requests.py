"""Requests for a job's results: the arguments of `Job.fetch`, `Job.logs` and `Job.download_logs`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from pathlib import Path

from tidemill.client.results.fetch_report import FetchReport
from tidemill.client.results.item_names import DEFAULT
from tidemill.client.site import Log
from tidemill.clouds.account import ignore


@dataclass(frozen=True)
class FetchRequest:
    """Outputs that a caller wants as files of this machine.

    Attributes:
        folder: Where they go; it is created.
        items: Indexes; None for every item.
        failed: Only items that failed. They have no outputs, but logs.
        name: What names an item in the folder: text with `{stem}`, `{name}`, `{path}`, `{index}` or a key of the
            metadata. With `{ext}` at its end, an item with a single output file is that file, not a folder.
        logs: Bring what each item printed, too, as `logs/<name>.log`.
        state: Bring the newest saved state of each item, too, as `state/<name>/`.
        overwrite: Replace files that no fetch wrote, or that were changed since, too.
        on_report: Called a few times a second with what has come so far.
    """

    folder: str | Path
    _: KW_ONLY
    items: Collection[int] | None = None
    failed: bool = False
    name: str = DEFAULT
    logs: bool = False
    state: bool = False
    overwrite: bool = False
    on_report: Callable[[FetchReport], None] = lambda report: None


@dataclass(frozen=True)
class LogRequest:
    """Lines of a job's log that a caller asks for.

    Attributes:
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
    """

    item: int | None = None
    worker: bool = False
    _: KW_ONLY
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    regex: str | None = None
    failed: bool = False
    group: str | None = None
    limit: int | None = None
    follow: bool = False
    say: Log = ignore


@dataclass(frozen=True)
class LogDownloadRequest:
    """A job's log, or a part of it, as files.

    Attributes:
        folder: Where the files go.
        by: `item`; or `container` for one file per container, whose lines name item and attempt.
        worker: Also what the worker itself says, in files by container.
        since: Only lines of this time and later.
        until: Only lines of this time and before.
        failed: Only items that failed for good, so far.
        group: Only failed items of this group, by its id.
        any_number: Write more than 20,000 files by item, too.
        say: As in `logs`.
    """

    folder: str | Path
    _: KW_ONLY
    by: str = "item"
    worker: bool = False
    since: datetime | None = None
    until: datetime | None = None
    failed: bool = False
    group: str | None = None
    any_number: bool = False
    say: Log = ignore
