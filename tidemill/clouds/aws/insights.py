"""Searching a whole job with CloudWatch Logs Insights: one query instead of a page of FilterLogEvents per megabyte.

Facts: at most 100,000 rows per query, 10,000 per page; a query runs for at most 60 minutes; times are whole seconds,
both inclusive (https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_StartQuery.html,
…/API_GetQueryResults.html). $0.005 per GB that is scanned (https://aws.amazon.com/cloudwatch/pricing/). A `filter` on
an indexed field skips events as `filterIndex` does, and also finds lines from before there was an index
(https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CloudWatchLogs-Field-Indexing.html).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from tidemill.clouds.account import LogLine, LogSearch
from tidemill.clouds.aws.lines import line_of
from tidemill.clouds.aws.session import translated
from tidemill.clouds.patterns import common, pattern_of
from tidemill.errors import CloudError

ROWS, FEW_ROWS = 100_000, 1000
"""Rows of a query at most, and at least: the client may drop some of them."""
ITEMS = 200
"""Items named in one query: its text has at most 10,000 characters."""
USD_PER_GB = 0.005
PAUSES = (0.2, 0.3, 0.5, 1.0, 2.0)
"""Seconds between looks at a query that runs; the last one repeats."""


def statement(search: LogSearch, items: list[int] | None, limit: int) -> str:
    """A query's text."""
    terms = [f"job = {json.dumps(search.job)}"]
    if items is not None:
        terms.append(f"item in {json.dumps(items)}")
    if search.printed:
        terms.append("ispresent(stream)")
    if search.text:
        terms.append(f"message like /{pattern_of(search.text)}/")
    if search.regex and (regex := common(search.regex)):
        terms.append(f"message like /{regex}/")
    wanted = " and ".join(terms)
    return f"fields @timestamp, @message, @logStream | filter {wanted} | sort @timestamp asc | limit {limit}"


class Insights:
    """Queries of one log group. `scanned` counts their bytes."""

    def __init__(self, logs: Any, group: str) -> None:
        self._logs, self._group = logs, group
        self.scanned = 0.0

    def find(self, search: LogSearch, until: float) -> Iterator[LogLine]:
        """Lines of a job, oldest first; lines of many items oldest first for each 200 of them.

        Raises:
            CloudError: The cloud refuses or does not answer; its code is `AccessDeniedException` when the login may not
                query.
        """
        items = None if search.items is None else sorted(search.items)
        for start in range(0, len(items or [0]), ITEMS):
            yield from self._pieces(search, items and items[start : start + ITEMS], until)

    def _pieces(self, search: LogSearch, items: list[int] | None, until: float) -> Iterator[LogLine]:
        """A query that fills its rows is continued at the second of its last row."""
        rows = min(ROWS, max(FEW_ROWS, search.limit or ROWS))
        since, seen = int(search.since), set[str]()
        while since <= until:
            count, newest = 0, since
            for line in self._query(statement(search, items, rows), since, int(until)):
                count, newest = count + 1, max(newest, int(line.at))
                if line.id not in seen:
                    yield line
                seen.add(line.id)
            if count < rows:
                return
            if newest == since and rows == ROWS:
                second = datetime.fromtimestamp(since, UTC).isoformat()
                search.say(f"More than {ROWS:,} lines are of the second {second}; the others are left out.")
                newest += 1
            rows = ROWS if newest == since else rows
            since = newest

    def _query(self, text: str, since: int, until: int) -> Iterator[LogLine]:
        id_ = self._start(text, since, until)
        complete = False
        try:
            answer = self._complete(id_)
            complete = True
            self.scanned += answer.get("statistics", {}).get("bytesScanned", 0.0)
            while True:
                yield from map(_row, answer["results"])
                if not answer.get("nextToken"):
                    return
                with translated("logs:GetQueryResults"):
                    answer = self._logs.get_query_results(queryId=id_, nextToken=answer["nextToken"])
        finally:
            if not complete:
                # Somebody typed Ctrl-C, or the connection is gone: a query that runs on would be billed on.
                with suppress(CloudError), translated("logs:StopQuery"):
                    self._logs.stop_query(queryId=id_)

    def _start(self, text: str, since: int, until: int) -> str:
        asked = {"logGroupName": self._group, "startTime": since, "endTime": until, "queryString": text}
        with translated("logs:StartQuery"):
            return self._logs.start_query(**asked)["queryId"]

    def _complete(self, id_: str) -> dict[str, Any]:
        looks = 0
        while True:
            with translated("logs:GetQueryResults"):
                answer = self._logs.get_query_results(queryId=id_)
            if answer["status"] == "Complete":
                return answer
            if answer["status"] not in ("Scheduled", "Running"):
                problem = f"the query of the log ended as {answer['status']}."
                raise CloudError(problem, "Narrow it with --since and --until.", code=answer["status"])
            time.sleep(PAUSES[min(looks, len(PAUSES) - 1)])
            looks += 1


def price(scanned: float) -> str:
    """Price of queries, in words."""
    size = f"{scanned / 1e9:.1f} GB" if scanned >= 1e8 else f"{scanned / 1e6:.1f} MB"
    return f"searched {size} (${scanned / 1e9 * USD_PER_GB:.4f})"


def _row(row: list[dict[str, str]]) -> LogLine:
    cells = {cell["field"]: cell["value"] for cell in row}
    at = datetime.fromisoformat(cells["@timestamp"]).replace(tzinfo=UTC).timestamp()
    return line_of(at, cells["@message"], cells.get("@logStream", ""), cells["@ptr"])
