"""CloudWatch Logs Insights: StartQuery, GetQueryResults and StopQuery for the statements that Tidemill sends.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html. Known are `fields`, `filter` with terms
joined by `and`, `sort @timestamp` and `limit`; every other statement is malformed here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.logs import models
from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.responses import LogsResponse

from localcloud.aws.mended.method import method

Test = Callable[[dict[str, Any]], bool]

PAGE, MOST_ROWS, ROWS = 10_000, 100_000, 10_000
"""Rows of a page, of a query, and of a query that names no limit."""
STATEMENT = re.compile(r"\s*(\w+)((?:/(?:\\.|[^/\\])*/|\"(?:\\.|[^\"\\])*\"|[^|\"/])*)(?:\||$)", re.DOTALL)
TERM = re.compile(
    r"""\s*(?:ispresent\((?P<present>@?\w+)\)|(?P<name>@?\w+)\s*(?:(?P<op>=|!=)\s*(?P<value>"(?:\\.|[^"\\])*"|-?\d+)"""
    r"""|in\s*\[(?P<values>[^\]]*)\]|like\s*/(?P<regex>(?:\\.|[^/\\])*)/))\s*(?:and\b|$)"""
)


@dataclass
class LogQuery:
    """A query's text, understood."""

    fields: list[str] = field(default_factory=lambda: ["@timestamp", "@message"])
    tests: list[Test] = field(default_factory=list)
    indexed: list[str] = field(default_factory=list)
    """Values of the fields that are compared with `=`: an event without them is skipped, as with an index."""
    descending: bool = True
    limit: int = ROWS

    def read(self, name: str, rest: str) -> None:
        """Take one statement in.

        Raises:
            JsonRESTError: It is malformed, or localcloud does not know it.
        """
        rest = rest.strip()
        if name == "fields":
            self.fields = [each.strip() for each in rest.split(",")]
        elif name == "filter":
            self.tests += self._terms(rest)
        elif name == "sort" and (found := re.fullmatch(r"@timestamp (asc|desc)", rest)):
            self.descending = found[1] == "desc"
        elif name == "limit" and rest.isdecimal() and 0 < int(rest) <= MOST_ROWS:
            self.limit = int(rest)
        else:
            raise _malformed(f"{name} {rest}")

    def _terms(self, text: str) -> Iterator[Test]:
        at = 0
        while at < len(text):
            found = TERM.match(text, at)
            if not found:
                raise _malformed(text[at:])
            if found["op"] == "=":
                self.indexed.append(str(json.loads(found["value"])))
            yield _test(found)
            at = found.end()


def _test(found: re.Match[str]) -> Test:
    if name := found["present"]:
        return lambda event: event.get(name) is not None
    name = found["name"]
    if found["regex"] is not None:
        try:
            regex = re.compile(found["regex"].replace("\\/", "/"))
        except re.error as error:
            raise _malformed(f"{found['regex']}: {error}") from None
        return lambda event: name in event and regex.search(str(event[name])) is not None
    if found["values"] is not None:
        values = json.loads(f"[{found['values']}]")
        return lambda event: event.get(name) in values
    value, equal = json.loads(found["value"]), found["op"] == "="
    return lambda event: (event.get(name) == value) == equal


def _malformed(text: str) -> JsonRESTError:
    return JsonRESTError("MalformedQueryException", f"unexpected symbol found at {text[:80]!r}")


def parse(text: str) -> LogQuery:
    """The statements of a query, which pipes divide."""
    query, at = LogQuery(), 0
    while at < len(text):
        found = STATEMENT.match(text, at)
        if not found:
            raise _malformed(text[at:])
        query.read(found[1], found[2])
        at = found.end()
    return query


class Rows(list[dict[str, Any]]):
    """A query's result, and the bytes of the events that were looked at."""

    scanned = 0


@method(models, "execute_query")
def run(log_groups: list[Any], query: str, start_time: int, end_time: int) -> Rows:
    """Run a query over log groups; both times are whole seconds and inclusive."""
    parsed, rows, found = parse(query), Rows(), list[tuple[int, dict[str, Any]]]()
    for group in log_groups:
        for stream in group.streams.values():
            for event in stream.events:
                if not start_time * 1000 <= event.timestamp < (end_time + 1) * 1000:
                    continue
                if all(value in event.message for value in parsed.indexed):
                    rows.scanned += len(event.message)
                    event_fields = _fields(event.message) if event.message.startswith("{") else {}
                    if all(test(event_fields) for test in parsed.tests):
                        own = {"@message": event.message, "@logStream": stream.log_stream_name}
                        at = {"@timestamp": event.timestamp, "@ptr": str(event.event_id)}
                        known = event_fields | own | at
                        row = {name: known.get(name) for name in (*parsed.fields, "@ptr")}
                        found.append((event.timestamp, row))
    found.sort(key=lambda pair: pair[0], reverse=parsed.descending)
    rows += [row for _, row in found[: parsed.limit]]
    return rows


def _fields(message: str) -> dict[str, Any]:
    try:
        found = json.loads(message)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


@method(LogsResponse, "get_query_results")
def _get_query_results(response: LogsResponse) -> str:
    query: Any = response.logs_backend.queries.get(response._get_param("queryId"))
    if query is None:
        raise ResourceNotFoundException
    scanned = {"bytesScanned": float(query.results.scanned), "recordsMatched": float(len(query.results))}
    if not hasattr(query, "asked"):
        # A real query takes a moment.
        query.asked = True
        return json.dumps({"results": [], "status": "Running", "statistics": scanned})
    start = int(response._get_param("nextToken") or 0)
    page = query.results[start : start + PAGE]
    rows = [
        [{"field": key, "value": _shown(key, value)} for key, value in row.items() if value is not None] for row in page
    ]
    more = {"nextToken": str(start + PAGE)} if start + PAGE < len(query.results) else {}
    return json.dumps({"results": rows, "status": query.status, "statistics": scanned, **more})


def _shown(name: str, value: Any) -> str:
    if name == "@timestamp":
        return datetime.fromtimestamp(value / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return str(value)


@method(LogsResponse, "stop_query")
def _stop_query(response: LogsResponse) -> str:
    query: Any = response.logs_backend.queries.get(response._get_param("queryId"))
    if query is None or hasattr(query, "asked"):
        raise InvalidParameterException(msg="The specified query is not running.")
    query.status = "Cancelled"
    return json.dumps({"success": True})
