"""Workers' lines from a log bucket: entries:list over its view `_AllLogs`, filtered by the lines' own JSON fields.

https://cloud.google.com/logging/docs/view/logging-query-language
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tidemill.backends import LogLine
from tidemill.backends.gcp.backlog import seconds, stamp
from tidemill.backends.gcp.session import GoogleSession, MissingError
from tidemill.errors import CallerError

PAGE = 1000
"""The most entries per page: https://cloud.google.com/logging/quotas."""


def query(fields: dict[str, str | int], since: float, until: float | None, text: str | None) -> str:
    """A filter; its `:` means "holds this text" in any case."""
    terms = [f"jsonPayload.{key}={json.dumps(value)}" for key, value in fields.items()]
    terms.append(f'timestamp>="{stamp(since)}"')
    if until is not None:
        terms.append(f'timestamp<="{stamp(until)}"')
    if text:
        terms.append(f"jsonPayload.message:{json.dumps(text, ensure_ascii=False)}")
    return " AND ".join(terms)


def entries(session: GoogleSession, bucket: str | None, wanted: str) -> Iterator[LogLine]:
    """Lines that a filter lets through, oldest first; nothing when the bucket is not there.

    Raises:
        CallerError: The stack's descriptor names no bucket.
    """
    if not bucket:
        raise CallerError("the pipeline's descriptor names no log_group.", "Ask the stack's owner to run `pulumi up`.")
    body: dict[str, Any] = {
        "resourceNames": [f"{bucket}/views/_AllLogs"],
        "filter": wanted,
        "orderBy": "timestamp asc",
        "pageSize": PAGE,
    }
    while True:
        try:
            answer = session.call("logging", "POST", "v2/entries:list", body, action="logging.views.access")
        except MissingError:
            return
        yield from map(_line, answer.get("entries", []))
        # A page may be empty although more follow.
        if not answer.get("nextPageToken"):
            return
        body["pageToken"] = answer["nextPageToken"]


def _line(entry: dict[str, Any]) -> LogLine:
    fields = {key: _whole(value) for key, value in entry.get("jsonPayload", {}).items()}
    message = json.dumps(fields, separators=(",", ":"), ensure_ascii=False) if fields else entry.get("textPayload", "")
    labels = entry.get("resource", {}).get("labels", {})
    stream = labels.get("instance_id") or entry.get("logName", "")
    return LogLine(seconds(entry["timestamp"]), message, stream, fields, entry.get("insertId", ""))


def _whole(value: Any) -> Any:
    """Numbers of a JSON payload travel as doubles: 7.0 was 7."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
