"""localcloud's Logging: entries pass sinks into log buckets, and are read back by filter, order and page."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from localcloud.gcp.filters import matches
from localcloud.gcp.logs import Logs
from localcloud.gcp.site import Site
from localcloud.gcp.wire import RestError
from tests.localcloud.gcp.running import BASE, OWNER, RunningGcp

LOG = f"{BASE}/logs/lines"
BUCKET = f"{BASE}/locations/us-central1/buckets/lines"
VIEW = f"{BUCKET}/views/_AllLogs"
DEFAULT = f"{BASE}/locations/global/buckets/_Default"
RESOURCE = {"type": "generic_node", "labels": {"node_id": "vm-1"}}
ENTRY = {"logName": LOG, "severity": "ERROR", "timestamp": "2026-11-21T13:00:00.5Z", "resource": RESOURCE,
         "jsonPayload": {"job": "tiles", "item": 3, "message": "Out of MEMORY", "ok": True},
         "labels": {"a.b/c": "x"}}  # fmt: skip


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with RunningGcp(tmp_path_factory.mktemp("gcp")) as gcp:
        yield with_lines(gcp.site)


def with_lines(site: Site) -> Site:
    """A site with a log bucket, and with what leads entries into it, keeps them out and counts them."""
    place = f"v2/{BASE}/locations/us-central1/buckets?bucketId=lines"
    site.call(OWNER, "logging", "POST", place, {"retentionDays": 14})
    noise = {"name": "debug", "filter": 'jsonPayload.level = "debug"'}
    sink = {"name": "lines", "destination": f"logging.googleapis.com/{BUCKET}", "filter": f'logName = "{LOG}"'}
    site.call(OWNER, "logging", "POST", f"v2/{BASE}/sinks", {**sink, "exclusions": [noise]})
    site.call(OWNER, "logging", "POST", f"v2/{BASE}/exclusions", {"name": "own", "filter": f'logName="{LOG}"'})
    failed = 'jsonPayload.event = "item" AND jsonPayload.status = "failed"'
    site.call(OWNER, "logging", "POST", f"v2/{BASE}/metrics", {"name": "failed", "filter": failed})
    return site


def write(site: Site, *lines: dict[str, Any], log: str = LOG, principal: str = OWNER, **more: Any) -> None:
    entries = [{"jsonPayload": line, **more} for line in lines]
    body = {"logName": log, "resource": RESOURCE, "entries": entries}
    site.call(principal, "logging", "POST", "v2/entries:write", body)


def read(
    site: Site, wanted: str = "", view: str = f"{BUCKET}/views/_AllLogs", principal: str = OWNER, **more: Any
) -> Any:
    body = {"resourceNames": [view], "filter": wanted, **more}
    return site.call(principal, "logging", "POST", "v2/entries:list", body)


def numbers(answer: dict[str, Any]) -> list[int]:
    return [entry["jsonPayload"]["n"] for entry in answer.get("entries", [])]


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("", True),
        ('jsonPayload.job="tiles" AND jsonPayload.item=3', True),
        ('jsonPayload.job = "TILES"', True),  # only regular expressions are case-sensitive
        ('jsonPayload.job="tile"', False),
        ('jsonPayload.job:"TILE"', True),
        ('jsonPayload.message:"of memory" jsonPayload.item="3"', True),
        ("jsonPayload.item=4", False),
        ("jsonPayload.item>=3 AND jsonPayload.item<3.5", True),
        ('jsonPayload.none="x"', False),
        ('jsonPayload.none!="x"', False),
        ('NOT jsonPayload.none="x"', True),
        ("jsonPayload.job:*", True),
        ("jsonPayload.none:*", False),
        ('jsonPayload.message=~"of MEM" AND jsonPayload.message!~"of mem"', True),
        ("severity>=WARNING", True),
        ('severity="INFO"', False),
        ('timestamp>="2026-11-21T13:00:00Z" AND timestamp<="2026-11-21T14:00:00.000001+01:00"', False),
        ('timestamp>="2026-11-21T13:00:00.500000Z"', True),
        (f'logName="{LOG}" AND resource.type="generic_node" AND resource.labels.node_id="vm-1"', True),
        ('labels."a.b/c"="x"', True),
        ("jsonPayload.ok=true", True),
    ],
)
def test_a_filter_lets_entries_pass_as_the_query_language_says(text: str, passes: bool) -> None:
    assert matches(text, ENTRY) == passes


@pytest.mark.parametrize("text", ["(", 'a="b" OR c="d"', 'a=("b" OR "c")', "word", "AND", 'a="b" AND', 'a="b'])
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(RestError) as error:
        matches(text, ENTRY)
    assert error.value.code == 400


def test_a_sink_takes_what_its_filter_and_exclusions_let_through(site: Site) -> None:
    write(site, {"n": 1, "job": "a"}, {"n": 2, "level": "debug"})
    write(site, {"n": 3}, log=f"{BASE}/logs/other")
    assert numbers(read(site)) == [1]
    assert numbers(read(site, view=f"{DEFAULT}/views/_AllLogs")) == [3], "the project's exclusion is _Default's"
    assert sorted(numbers(read(site, view=BASE))) == [1, 3]
    site.call(OWNER, "logging", "DELETE", f"v2/{BASE}/sinks/lines")
    write(site, {"n": 4})
    assert numbers(read(site)) == [1]


def test_entries_are_completed_counted_and_each_kept_once(site: Site) -> None:
    write(site, {"n": 1, "event": "item", "status": "failed"}, insertId="same", timestamp="2026-11-21T13:00:00Z")
    write(site, {"n": 1, "event": "item", "status": "failed"}, insertId="same", timestamp="2026-11-21T13:00:00Z")
    write(site, {"n": 2, "event": "item", "status": "done"})
    first, second = read(site)["entries"]
    assert (first["insertId"], first["logName"], first["resource"]) == ("same", LOG, RESOURCE)
    written = datetime.fromisoformat(second["timestamp"]).timestamp()
    assert abs(written - site.clock.now()) < 60
    assert second["insertId"]
    logs = site.plugin(Logs)
    assert logs.control({}) == {"buckets": {BUCKET: 2}, "metrics": {"failed": 2}}


def test_entries_are_paged_in_both_directions(site: Site) -> None:
    for number in (3, 1, 4, 0, 2):
        write(site, {"n": number}, timestamp=f"2026-11-21T13:00:0{number}Z")
    for order, expected in (("timestamp asc", [0, 1, 2, 3, 4]), ("timestamp desc", [4, 3, 2, 1, 0])):
        found, token, pages = [], "", 0
        while True:
            page = read(site, orderBy=order, pageSize=2, pageToken=token)
            found, token, pages = found + numbers(page), page.get("nextPageToken"), pages + 1
            if not token:
                break
        assert (found, pages) == (expected, 3)
    within = 'timestamp>="2026-11-21T13:00:01Z" AND timestamp<="2026-11-21T13:00:03Z"'
    assert numbers(read(site, within)) == [1, 2, 3]
    assert numbers(read(site, 'timestamp>"2027-01-01T00:00:00Z"')) == []
    with pytest.raises(RestError, match="orderBy"):
        read(site, orderBy="severity asc")


def test_an_entry_goes_when_its_retention_is_over(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    write(site, {"n": 1}, timestamp=datetime.now(UTC).isoformat())
    assert numbers(read(site)) == [1]
    now = site.clock.now()
    for days, kept in ((13.9, [1]), (14.1, [])):
        monkeypatch.setattr(site.clock, "now", lambda days=days: now + days * 86400)
        assert numbers(read(site)) == kept


def test_who_writes_and_reads_needs_the_permission_for_it(site: Site) -> None:
    reader, member = "user:reader@example.com", {"role": "roles/logging.viewAccessor"}
    with pytest.raises(RestError, match=r"logging\.logEntries\.create"):
        write(site, {"n": 1}, principal=reader)
    write(site, {"n": 1})
    with pytest.raises(RestError, match=r"logging\.views\.access"):
        read(site, principal=reader)
    here = f'resource.name == "{BUCKET}/views/_AllLogs"'
    binding = {**member, "members": [reader], "condition": {"title": "lines", "expression": here}}
    policy = site.resources.policy(f"cloudresourcemanager/{BASE}")
    policy["bindings"].append(binding)
    site.resources.set_policy(f"cloudresourcemanager/{BASE}", policy)
    assert numbers(read(site, principal=reader)) == [1]
    for elsewhere in (f"{DEFAULT}/views/_AllLogs", BASE):
        with pytest.raises(RestError) as error:
            read(site, view=elsewhere, principal=reader)
        assert error.value.code == 403
    with pytest.raises(RestError, match="does not exist"):
        read(site, view=f"{BASE}/locations/us-central1/buckets/none/views/_AllLogs")


def test_what_is_wrong_is_refused(site: Site) -> None:
    both = {"textPayload": "x", "jsonPayload": {"a": 1}}
    wrongs: list[dict[str, Any]] = [{"logName": "lines"}, {"resource": {}}, {"timestamp": "noon"}, both]
    for wrong in wrongs:
        with pytest.raises(RestError) as error:
            write(site, {"n": 1}, **wrong)
        assert error.value.code == 400
    assert numbers(read(site)) == []
    for action in (
        lambda: read(site, "("),
        lambda: site.call(OWNER, "logging", "POST", f"v2/{BASE}/metrics", {"name": "m", "filter": "("}),
    ):
        with pytest.raises(RestError, match="filter"):
            action()


def test_lines_of_machines_are_found_by_the_clouds_clock(site):
    """A program on a machine has the clock of this machine, however fast that of the cloud runs."""
    site.clock.origin -= 3600
    site.clock.factor = 10
    began = datetime.fromtimestamp(site.clock.now(), UTC).isoformat()
    write(site, {"n": 1}, timestamp=datetime.now(UTC).isoformat())
    assert numbers(read(site, f'timestamp>="{began}"')) == [1]
