"""Workers' lines from a log group."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidemill.clouds.account import LogLine, LogSearch
from tidemill.clouds.aws.insights import Insights, price
from tidemill.clouds.aws.lines import line_of
from tidemill.clouds.aws.session import DENIED, client, translated
from tidemill.errors import CallerError, CloudError

if TYPE_CHECKING:
    import boto3

LATE_SECONDS = 120.0
"""A query sees a line a moment after FilterLogEvents does."""
_UP = "the stack's owner can grant the search with `pulumi up`."


class LogGroup:
    """The lines of one stack, read with FilterLogEvents: up to 10,000 lines or 1 MB per page, free of charge.

    https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_FilterLogEvents.html
    """

    def __init__(self, name: str | None, region: str, session: boto3.Session, now: Callable[[], float]) -> None:
        self._name, self._region, self._session, self._now = name, region, session, now

    @property
    def name(self) -> str:
        """The group's name.

        Raises:
            CallerError: The stack's descriptor names no group.
        """
        if not self._name:
            problem = "the pipeline's descriptor names no log_group."
            raise CallerError(problem, "Ask the stack's owner to run `pulumi up`.")
        return self._name

    def find(self, search: LogSearch) -> Iterator[LogLine]:
        """Lines of a job, by a JSON pattern.

        https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/FilterAndPatternSyntax.html
        """
        terms = [f"($.job = {json.dumps(search.job)})"]
        if search.items is not None and len(search.items) == 1:
            terms.append(f"($.item = {min(search.items)})")
        # A star matches anything; the reader itself finds text that the pattern would have to escape.
        if search.text and re.fullmatch(r"[ !#-\[\]-~]+", search.text):
            terms.append(f'($.message = "*{search.text}*")')
        lines = self._events(filterPattern="{ " + " && ".join(terms) + " }", **_window(search))
        return (line for line in lines if search.has(line))

    def search(self, search: LogSearch) -> Iterator[LogLine]:
        """The same by a query, which is billed by the GB. Lines reach queries late, so the last minutes are read."""
        read_from = int(self._now() - LATE_SECONDS)
        until = read_from - 1 if search.until is None else min(search.until, read_from - 1)
        insights = Insights(client("logs", self._region, self._session), self.name)
        try:
            if search.since <= until:
                yield from (line for line in insights.find(search, until) if search.has(line))
                search = replace(search, since=max(search.since, read_from))
        except CloudError as error:
            if error.code not in DENIED or insights.scanned:
                raise
            search.say(f"{error.problem} Reading the log page by page instead; {_UP}")
        finally:
            if insights.scanned:
                search.say(price(insights.scanned))
        if search.until is None or search.since <= search.until:
            yield from self.find(search)

    def of_streams(self, streams: list[str], search: LogSearch) -> Iterator[LogLine]:
        """Every line of some streams."""
        return self._events(logStreamNames=streams, **_window(search))

    def _events(self, **arguments: Any) -> Iterator[LogLine]:
        name, logs = self.name, client("logs", self._region, self._session)
        with translated("logs:FilterLogEvents", absent=("ResourceNotFoundException",)):
            for page in logs.get_paginator("filter_log_events").paginate(logGroupName=name, **arguments):
                for event in page["events"]:
                    stream, id_ = event.get("logStreamName", ""), event.get("eventId", "")
                    yield line_of(event["timestamp"] / 1000, event["message"], stream, id_)


def _window(search: LogSearch) -> dict[str, int]:
    ends = {} if search.until is None else {"endTime": int(search.until * 1000)}
    return {"startTime": int(search.since * 1000), **ends}
