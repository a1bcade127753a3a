"""Workers' lines from a log bucket: entries:list over its view `_AllLogs`, filtered by the lines' own JSON fields.

All readers of a project together may read 60 times per minute, and the limit cannot be raised: one reader must leave
room for others. https://cloud.google.com/logging/quotas,
https://cloud.google.com/logging/docs/view/logging-query-language
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from tidemill.clouds.account import LogLine, LogSearch
from tidemill.clouds.gcp.session import BusyError, GoogleSession, MissingError
from tidemill.clouds.gcp.times import seconds, stamp
from tidemill.clouds.patterns import common
from tidemill.errors import CallerError

PAGE = 1000
"""The most entries per page."""
READS_A_MINUTE = 15
"""Reads of one process: a quarter of what the project has."""
ITEMS = 200
"""Items named in one filter, which has at most 20,000 characters."""
MANY_LINES = 20_000
_ADVICE = (
    f"{MANY_LINES:,} lines so far, and at most {READS_A_MINUTE * PAGE:,} more per minute, because Cloud Logging lets a "
    "project read 60 times per minute. --item, --grep, --regex, --since and --failed read less."
)
BUSY_PAUSES = (10.0, 20.0, 40.0, 60.0, 60.0, 60.0)
"""Seconds before each of at most six retries once the project's reads are used up."""


class ReadLimit:
    """At most so many reads in any minute. The first ones do not wait."""

    def __init__(self, most: int = READS_A_MINUTE) -> None:
        self._most, self._lock = most, threading.Lock()
        self._times: deque[float] = deque(maxlen=most)

    def wait(self) -> None:
        """Wait until another read is due, and count it."""
        with self._lock:
            now = time.monotonic()
            due = self._times[0] + 60.0 if len(self._times) == self._most else now
            self._times.append(max(now, due))
        if due > now:
            time.sleep(due - now)


READS = ReadLimit()


def query(search: LogSearch, items: list[int] | None) -> str:
    """A filter; its `:` means "holds this text" in any case."""
    terms = [f"jsonPayload.job={json.dumps(search.job)}"]
    if items is not None:
        values = " OR ".join(map(str, items))
        terms.append(f"jsonPayload.item={values if len(items) == 1 else f'({values})'}")
    if search.printed:
        terms.append("jsonPayload.stream:*")
    terms.append(f'timestamp>="{stamp(search.since)}"')
    if search.until is not None:
        terms.append(f'timestamp<="{stamp(search.until)}"')
    if search.arrived:
        terms.append(f'receiveTimestamp>="{stamp(search.arrived)}"')
    if search.text:
        terms.append(f"jsonPayload.message:{json.dumps(search.text, ensure_ascii=False)}")
    if search.regex and (regex := common(search.regex)):
        terms.append(f"jsonPayload.message=~{json.dumps(regex)}")
    return " AND ".join(terms)


def find(session: GoogleSession, bucket: str | None, search: LogSearch) -> Iterator[LogLine]:
    """Lines of a job, oldest first; nothing when the bucket is not there. Lines of many items are oldest first for each
    200 of them.

    Raises:
        CallerError: The stack's descriptor names no bucket.
        BusyError: The project's reads are used up by others.
    """
    if not bucket:
        raise CallerError("the pipeline's descriptor names no log_group.", "Ask the stack's owner to run `pulumi up`.")
    items, count = None if search.items is None else sorted(search.items), 0
    for start in range(0, len(items or [0]), ITEMS):
        for page in _pages(session, bucket, query(search, items and items[start : start + ITEMS]), search.say):
            yield from filter(search.has, page)
            if count < MANY_LINES <= count + len(page):
                search.say(_ADVICE)
            count += len(page)


def _pages(session: GoogleSession, bucket: str, wanted: str, say: Callable[[str], None]) -> Iterator[list[LogLine]]:
    body: dict[str, Any] = {
        "resourceNames": [f"{bucket}/views/_AllLogs"],
        "filter": wanted,
        "orderBy": "timestamp asc",
        "pageSize": PAGE,
    }
    while True:
        try:
            answer = _read(session, body, say)
        except MissingError:
            return
        yield [_line(entry) for entry in answer.get("entries", [])]
        # A page may be empty although more follow.
        if not answer.get("nextPageToken"):
            return
        body["pageToken"] = answer["nextPageToken"]


def _read(session: GoogleSession, body: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
    for pause in (*BUSY_PAUSES, None):
        READS.wait()
        try:
            return session.call("logging", "POST", "v2/entries:list", body, action="logging.views.access", busy=True)
        except BusyError:
            if pause is None:
                raise
            say(f"Others use up the project's 60 log reads per minute; reading again in {pause:.0f} s.")
            time.sleep(pause)
    raise AssertionError("unreachable")


def _line(entry: dict[str, Any]) -> LogLine:
    fields = {key: _whole(value) for key, value in entry.get("jsonPayload", {}).items()}
    message = json.dumps(fields, separators=(",", ":"), ensure_ascii=False) if fields else entry.get("textPayload", "")
    labels = entry.get("resource", {}).get("labels", {})
    stream = labels.get("instance_id") or entry.get("logName", "")
    arrived = seconds(entry["receiveTimestamp"]) if "receiveTimestamp" in entry else 0.0
    return LogLine(seconds(entry["timestamp"]), message, stream, fields, entry.get("insertId", ""), arrived)


def _whole(value: Any) -> Any:
    """Numbers of a JSON payload travel as doubles: 7.0 was 7."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
