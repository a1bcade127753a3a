"""What a job shows before its end, on every cloud: each item that has an outcome, in whichever way it is asked.

A test writes what workers write: progress of the first chunk, nothing of the second, the record of the third. What this
cannot prove: how often workers write (see tests/worker/local and tests/e2e/test_unfinished.py).
"""

import json
from collections import Counter
from contextlib import suppress

import pytest

from tests.unit.client_fakes import outcome, uris
from tests.unit.every_cloud import run_chunk, worlds
from tidemill.cli import main
from tidemill.client import site as site_module
from tidemill.client.rounds import deliveries
from tidemill.clouds.local.desk import Desk
from tidemill.errors import ItemFailedError, JobEndedError
from tidemill.ledger import Ledger
from tidemill.manifest import read_chunk

WORLDS = worlds()
ENDED = [0, 1, 2, 8, 9]
"""Items with an outcome; 2 has failed."""
CASES = [(cloud, end) for cloud in WORLDS for end in ("running", "interrupted", "killed")]
GOING_ON = pytest.mark.parametrize(
    "job", [case for case in CASES if case[1] == "running"], ids=lambda case: case[0], indirect=True
)


@pytest.fixture(params=CASES, ids="-".join)
def job(request, tmp_path, monkeypatch):
    """A job with outcomes in progress and in a record, which runs, or was ended before its time."""
    cloud, end = request.param
    world = WORLDS[cloud](tmp_path, monkeypatch)
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    monkeypatch.setattr(site_module, "open_backend", lambda *_: world.pipeline.site.backend("cpu"))
    monkeypatch.setenv("TIDEMILL_PIPELINE", world.pipeline.descriptor.uri)
    monkeypatch.chdir(tmp_path)
    made = world.pipeline.submit(["true"], uris(10), name="t", queue=world.queue, chunk_size=4)
    begin(made)
    run_chunk(world.pipeline, made.id, 0, 2, ())
    lock = Desk(world.pipeline.store.uri, made.id).lock(0) if cloud == "local" and end == "running" else None
    if end == "interrupted" and cloud != "local":
        made.cancel()
    yield made
    if lock:
        lock.close()


def begin(made):
    """Progress of the first three items in two parts, by an attempt whose marker stands."""
    made.store = made._watched.site.store
    ledger = Ledger(made.store, made.id).chunk(0, 0)
    ledger.marker("a", 1, {}).write([3])
    outcomes = [outcome(item.index, item.uri, item.index == 2) for item in read_chunk(made.store, made.id, 0)[:3]]
    for one in outcomes:
        one.output = one.output and f"{made.output}/{one.index}/"
        one.value = None if one.status == "failed" else one.index * 10
        if one.output:
            place, name = made._watched.site.stores().locate(f"{one.output}a.txt")
            place.put(name, b"text")
    ledger.write_progress("a", 0, outcomes[:2])
    ledger.write_progress("a", 1, outcomes[2:])


def waited(seconds):
    raise TimeoutError("nothing more has ended")


def test_every_way_to_ask_shows_every_item_that_has_ended(job):
    assert [each.index for each in job.results()] == ENDED
    assert list(job.to_pandas().index) == ENDED
    assert [each.index for each in job.results(failed_only=True)] == [2]
    status = job.status()
    assert (status.progress, status.failed) == ((5, 10), 1)
    summary = job.summary()
    assert (summary.succeeded, summary.failed, summary.outputs) == (4, 1, 4)
    fetched = job.fetch("here", items=[0, 1])
    assert (fetched.moved.files, fetched.whole) == (2, True)


def test_the_report_counts_them_and_groups_their_failures(job):
    report = job.report()
    assert (report.succeeded, report.failed, report.remaining, report.executions) == (4, 1, 5, 5)
    (group,) = report.failing.groups
    assert (group.count, group.items) == (1, [2])
    assert report.wall is not None
    assert (report.wall.items, report.tries) == (5, [4, 0, 1])
    assert report.timeline is not None
    assert (sum(report.timeline.succeeded), sum(report.timeline.failed)) == (4, 1)
    assert Counter(item.item in ENDED for item in report.slowest) == {True: 5}
    assert job.write_report("page.html") == "page.html"


def test_values_come_up_to_the_first_item_without_an_outcome(job, patch_time):
    patch_time(sleep=waited)
    found, end = [], None
    try:
        for value in job.values(return_exceptions=True):
            found.append(value)
    except (TimeoutError, JobEndedError) as error:
        end = error
    assert found[:2] == [0, 10]
    assert [type(each) for each in found[2:]] == [ItemFailedError]
    assert end is not None
    assert isinstance(end, TimeoutError) == (job.status().state in ("running", "waiting"))


def test_commands_show_the_same(job, capsys):
    main(["results", job.id, "--json"])
    assert [json.loads(line)["index"] for line in capsys.readouterr().out.splitlines()] == ENDED
    main(["failures", job.id, "--json"])
    assert json.loads(capsys.readouterr().out)["failed"] == 1
    main(["status", job.id, "--json"])
    assert json.loads(capsys.readouterr().out)["succeeded"] == 4
    main(["jobs", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (row["succeeded"], row["failed"], row["remaining"]) == (4, 1, 5)


@GOING_ON
def test_each_value_comes_once_and_each_part_of_the_progress_is_read_once(job, patch_time, monkeypatch):
    """While it goes on: a part more at each look, then the record of the chunk."""
    ledger, reads = Ledger(job.store, job.id).chunk(0, 0), Counter()
    find = type(job.store).find
    monkeypatch.setattr(type(job.store), "find", lambda self, name: reads.update([name]) or find(self, name))
    whole = [outcome(item.index, item.uri, False) for item in read_chunk(job.store, job.id, 0)]
    for one in whole:
        one.value = one.index * 10
    steps = iter([lambda: ledger.write_progress("a", 2, whole[3:]), lambda: ledger.commit("a", whole)])

    def step(seconds):
        next(steps, lambda: (_ for _ in ()).throw(TimeoutError))()

    patch_time(sleep=step)
    found = []
    with suppress(TimeoutError):
        for value in job.values(return_exceptions=True):
            found.append(value)
    assert [found[0], found[1], *found[3:]] == [0, 10, 30]
    # The counts of a look read each part once, and the values once more.
    assert {name: times for name, times in reads.items() if "/progress/" in name and times > 2} == {}


@GOING_ON
def test_values_of_a_retry_wait_for_what_runs_again(job, patch_time):
    ledger = Ledger(job.store, job.id)
    for chunk in (0, 1):
        outcomes = [outcome(item.index, item.uri, item.index == 0) for item in read_chunk(job.store, job.id, chunk)]
        ledger.chunk(0, chunk).commit("a", outcomes)
    assert job.retry().items == 1
    patch_time(sleep=waited)
    found = []
    with suppress(TimeoutError):
        for value in job.values(return_exceptions=True):
            found.append(value)
    assert found == [], "the first item runs again: its old failure is no value"
