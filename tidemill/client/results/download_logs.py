"""The log of a whole job as files, from one reading: a file per item or per container.

A download that is interrupted goes on where it was. `CURSOR` in the folder has a time; every line before it is in the
files, and lines after it are cut off and read again. So each line is there once, however often it is interrupted.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from tidemill.client.arguments import folder_path
from tidemill.client.results.downloads import full, unwritable
from tidemill.client.results.log_files import LogFiles, stamp_of
from tidemill.client.results.log_lines import LineFilter
from tidemill.client.results.requests import LogDownloadRequest, LogRequest
from tidemill.client.watch.watched import WatchedJob
from tidemill.clouds.account import LogLine, LogSearch
from tidemill.errors import CallerError

CURSOR = ".tidemill-logs.json"
MANY_ITEMS = 20_000
BY = ("item", "container")
_SAVED_LINES = 5_000
"""Lines after which the cursor is written again."""
_SEARCHED_ITEMS = 200
"""More items than this are picked from the lines of the whole job: a cloud returns them in several parts."""
_END = ".log"


@dataclass(frozen=True)
class LogDownload:
    """Result of a download.

    Attributes:
        folder: Where the files are.
        lines: Lines that were read, without those of an earlier download.
        files: Files that got any of them.
        resumed: An earlier download was continued.
    """

    folder: str
    lines: int
    files: int
    resumed: bool


def download_logs(job: WatchedJob, request: LogDownloadRequest) -> LogDownload:
    """Write `<index>.log` for each item, or a file for each container, into a folder. See `Job.download_logs`."""
    account, spec, folder, by = job.site.account, job.spec, folder_path(request.folder), request.by
    worker, same = request.worker and by == "container", ("since", "until", "failed", "group", "say")
    wanted = LineFilter(job, LogRequest(worker=worker, **{name: getattr(request, name) for name in same}))
    number = spec.items_total if wanted.items is None else len(wanted.items)
    if by == "item" and not request.any_number and number > MANY_ITEMS:
        fix = "Say `any_number=True`, or write one file per container: `by='container'`."
        raise CallerError.about("items", number, f"{MANY_ITEMS} or less, for one file per item", fix)
    if by not in BY:
        raise CallerError.about("by", by, " or ".join(BY), "A container runs many items.")
    asked: dict[str, Any] = {"job": spec.job, "by": by, "since": stamp_of(wanted.since)}
    asked["items"] = None if wanted.items is None else sorted(wanted.items)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        start = _resume(folder, asked)
        files, latest = LogFiles(folder), account.now() - account.log_late_seconds
        lines, last = 0, wanted.search.since
        if not start:
            _save(folder, asked, files, last)
        for line in account.logs(_search(wanted, start)):
            if wanted.has(line) and stamp_of(line.at) >= start and (name := _name(line, by)) is not None:
                files.write(name, _who(line, by), line)
                lines, last = lines + 1, line.at
                if lines % _SAVED_LINES == 0:
                    _save(folder, asked, files, min(last, latest))
        _save(folder, asked, files, min(last, latest))
        files.close()
    except OSError as error:
        raise full(folder, error) or unwritable(folder, error) from None
    return LogDownload(str(folder), lines, len(files.names), bool(start))


def _search(wanted: LineFilter, start: str) -> LogSearch:
    search = wanted.search
    if search.items is not None and len(search.items) > _SEARCHED_ITEMS:
        search = replace(search, items=None)
    # Files have milliseconds; the cloud may have more digits.
    since = datetime.fromisoformat(start).timestamp() - 0.001 if start else 0.0
    return replace(search, since=max(search.since, since))


def _name(line: LogLine, by: str) -> str | None:
    if by == "container":
        return re.sub(r"[^\w.-]", "_", line.stream)[-200:].lstrip(".") + _END
    return f"{line.fields['item']}{_END}" if isinstance(line.fields.get("item"), int) else None


def _who(line: LogLine, by: str) -> str:
    attempt = str(line.fields.get("attempt", "?"))
    return attempt if by == "item" else f"{line.fields.get('item', '-')}.{attempt}"


def _save(folder: Path, asked: dict[str, Any], files: LogFiles, at: float) -> None:
    files.flush()
    part = folder / f"{CURSOR}.part"
    part.write_text(json.dumps(asked | {"complete_before": stamp_of(at)}))
    os.replace(part, folder / CURSOR)


def _resume(folder: Path, asked: dict[str, Any]) -> str:
    """Cut off what an earlier download has written beyond its cursor, and return the cursor; empty without one.

    Raises:
        CallerError: The folder holds logs that this download would be mixed with.
    """
    try:
        before = json.loads((folder / CURSOR).read_bytes())
        cursor = str(before.pop("complete_before"))
    except FileNotFoundError:
        before, cursor = asked, ""
    except (ValueError, KeyError, AttributeError):
        before, cursor = None, ""
    logs = sorted(folder.glob(f"*{_END}"))
    # A link would be cut, and written, where it leads.
    if before != asked or (logs and not cursor) or any(map(os.path.islink, logs)):
        allowed = "a new or empty folder, or that of the same download"
        raise CallerError.about("folder", str(folder), allowed, "It holds other logs; name another folder.")
    for path in logs:
        _cut(path, cursor.encode())
    return cursor


def _cut(path: Path, cursor: bytes) -> None:
    """Leave the lines before a time: they are in the order of their times."""
    kept = 0
    with path.open("r+b") as file:
        for line in file:
            if line[: len(cursor)] >= cursor or not line.endswith(b"\n"):
                break
            kept += len(line)
        file.truncate(kept)
