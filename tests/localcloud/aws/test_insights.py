"""Searching the log of a whole job on AWS: the real backend, boto3, and localcloud's Insights inside moto.

What this cannot prove: how fast Insights is, what an index spares, and how late a line is in a query.
"""

import json
import re
import time

import boto3
import pytest
from moto import mock_aws
from moto.core.exceptions import JsonRESTError

from localcloud.aws.mended import insights as emulated
from tests.unit.client_fakes import descriptor
from tidemill.clouds.account import LogSearch
from tidemill.clouds.aws import insights
from tidemill.clouds.aws.account import AwsAccount
from tidemill.clouds.patterns import common, pattern_of
from tidemill.errors import CloudError
from tidemill.services.batch.backend import AwsBatch

JOB = "tiles-0a1b2c3d"
GROUP = "/tidemill/vision-dev"
HOSTILE = [
    "plain text",
    'say "no"',
    "it's",
    "a/b/c",
    "a | limit 1 | fields secret",
    "back\\slash\\",
    "fünf 数",
    "[x](y){z}^$.*+?",
    "tab\there",
    "`ticks` # comment",
    "/) or ispresent(job",
]


class Group:
    """A log group, and the calls that the backend makes."""

    def __init__(self, session):
        self.calls: list[str] = []
        self.client = session.client("logs")
        session.events.register("before-call.logs", lambda model, **_: self.calls.append(model.name))
        self.backend = AwsBatch(descriptor(), AwsAccount(descriptor(), session))
        self.client.create_log_group(logGroupName=GROUP)
        for name in ("a", "b"):
            self.client.create_log_stream(logGroupName=GROUP, logStreamName=name)
        self.said: list[str] = []

    def write(self, messages, *, ago=600.0, container="a", step=0.001, **fields):
        """Lines of items 0, 1, ...: the first so many seconds ago, each a step after the one before."""
        start, events = time.time() - ago, []
        for item, message in enumerate(messages):
            line = {"job": JOB, "item": item, "attempt": 1, "stream": "stdout", "message": message} | fields
            text = json.dumps({key: value for key, value in line.items() if value is not None}, ensure_ascii=False)
            events.append({"timestamp": int((start + item * step) * 1000), "message": text})
        for first in range(0, len(events), 5000):
            some = events[first : first + 5000]
            self.client.put_log_events(logGroupName=GROUP, logStreamName=container, logEvents=some)
        self.calls.clear()

    def search(self, **wanted):
        search = LogSearch(JOB, since=time.time() - 3600, printed=True, say=self.said.append, **wanted)
        return [line.said for line in self.backend.account.search_logs(search)]


def emulate(monkeypatch):
    """Put localcloud's Insights into this process's moto."""
    monkeypatch.setattr(emulated.models, "execute_query", emulated.run)
    for name in ("get_query_results", "stop_query"):
        monkeypatch.setattr(emulated.LogsResponse, name, getattr(emulated, f"_{name}"), raising=False)


@pytest.fixture(scope="module")
def session():
    """An account. Emptying all of its services takes longer than any test here."""
    with mock_aws():
        yield boto3.Session("id", "key", region_name="us-west-2")


@pytest.fixture
def group(session, monkeypatch):
    monkeypatch.setattr(insights, "PAUSES", (0.0,))
    emulate(monkeypatch)
    made = Group(session)
    yield made
    made.client.delete_log_group(logGroupName=GROUP)


def test_a_job_is_searched_by_one_query(group):
    group.write([f"line {number}" for number in range(30)])
    group.write(["line 7 of another job"], job="else-00000000")
    group.write(["line 7 of the worker"], container="b", stream=None)
    assert group.search(text="line 7") == ["line 7"]
    assert group.calls.count("StartQuery") == 1
    assert group.said == ["searched 0.0 MB ($0.0000)"]


@pytest.mark.parametrize("text", HOSTILE)
def test_any_text_is_found_as_typed_and_is_never_a_statement(group, text):
    group.write(["nothing", f"before {text} after", text, text.upper() + "!"])
    assert [line for line in group.search(text=text) if text in line] == [f"before {text} after", text]
    assert emulated.parse(insights.statement(LogSearch(JOB, text=text), None, 10)).limit == 10


@pytest.mark.parametrize(
    ("regex", "asked"),
    [("^line [12]$", True), ("a/b", True), (r"a\/b", True), ("(?i)LINE", True), ("(?=line)", False), ("ü", False)],
)
def test_a_regular_expression_is_asked_where_dialects_agree(group, regex, asked):
    lines = ["line 1", "line 12", "a/b", "ü"]
    group.write(lines)
    found = group.search(regex=regex)
    expected = [one for one in lines if re.search(regex, one)]
    assert [one for one in found if re.search(regex, one)] == expected
    assert (common(regex) is not None) == asked
    assert found == (expected if asked else lines)


def test_items_are_named_in_batches(group):
    group.write([f"line {number}" for number in range(500)])
    assert group.search(items=frozenset(range(0, 500, 2))) == [f"line {number}" for number in range(0, 500, 2)]
    assert group.calls.count("StartQuery") == 2


def test_more_rows_than_a_query_has_come_from_several(group, monkeypatch):
    monkeypatch.setattr(insights, "ROWS", 1000)
    monkeypatch.setattr(emulated, "PAGE", 300)
    lines = [f"line {number}" for number in range(4321)]
    group.write(lines, step=0.005)
    assert group.search(text="line") == lines
    assert 5 <= group.calls.count("StartQuery") <= 7


def test_a_second_with_more_rows_than_a_query_has_is_reported(group, monkeypatch):
    monkeypatch.setattr(insights, "ROWS", 1000)
    group.write(["line"] * 1500, step=0.0)
    assert len(group.search(text="line")) == 1000
    assert "1,000 lines are of the second" in group.said[0]


def test_the_last_minutes_come_from_reading(group):
    group.write(["old line"])
    group.write(["new line"], ago=5)
    assert group.search(text="line") == ["old line", "new line"]
    assert "FilterLogEvents" in group.calls
    group.calls.clear()
    assert group.search(text="line", until=time.time() - 300) == ["old line"]
    assert "FilterLogEvents" not in group.calls


def test_a_login_that_may_not_query_reads_page_by_page(group, monkeypatch):
    group.write(["one line", "another line"])

    def refuse(self):
        raise JsonRESTError("AccessDeniedException", "no")

    monkeypatch.setattr(emulated.LogsResponse, "start_query", refuse)
    assert group.search(text="line") == ["one line", "another line"]
    assert len(group.said) == 1
    assert "pulumi up" in group.said[0]


def test_a_query_that_is_left_is_stopped(group, patch_time):
    group.write(["one line"])

    def interrupted(seconds):
        raise KeyboardInterrupt

    patch_time(sleep=interrupted)
    with pytest.raises(KeyboardInterrupt):
        group.search(text="line")
    assert group.calls == ["StartQuery", "GetQueryResults", "StopQuery"]


def test_a_query_that_fails_is_an_error(group, monkeypatch):
    group.write(["one line"])
    answer = '{"results": [], "status": "Timeout"}'
    monkeypatch.setattr(emulated.LogsResponse, "get_query_results", lambda self: answer)
    with pytest.raises(CloudError) as failed:
        group.search(text="line")
    assert failed.value.code == "Timeout"


@pytest.mark.parametrize(
    "text",
    ["stats count(*)", "filter a ~ 1", "limit 100001", "limit 0", "sort item", "filter x in", "filter a like /(/"],
)
def test_what_localcloud_does_not_know_is_malformed(text):
    with pytest.raises(JsonRESTError, match="MalformedQueryException"):
        emulated.parse(text)


def test_a_pattern_leaves_open_what_json_may_escape():
    assert pattern_of('a "b" c.d') == r"a .+b.+ c\.d"
