"""Lists of jobs: their filters, and what they read. What this cannot prove: how long a cloud takes for a listing."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.client_fakes import pipeline, uris
from tidemill import layout
from tidemill.client import journal
from tidemill.errors import CallerError, StoreDeniedError
from tidemill.store import Store

COMMAND = ["x", "{input}"]
MANY = 1000
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


class Reads:
    """Requests of stores, by what they ask for."""

    def __init__(self, monkeypatch):
        self.of = Counter()
        for verb in ("get", "put"):
            monkeypatch.setattr(Store, verb, self.counting(verb, getattr(Store, verb)))

    def counting(self, verb, real):
        def counted(store, name, *args, **more):
            self.of[f"{verb} {name.rpartition('/')[2] if verb == 'get' else name.split('/')[1]}"] += 1
            return real(store, name, *args, **more)

        return counted

    def taken(self):
        found, self.of = dict(self.of), Counter()
        return found


@pytest.fixture
def reads(monkeypatch):
    return Reads(monkeypatch)


def sent(target, name, **more):
    return target.submit(COMMAND, uris(2), queue=more.pop("queue", "cpu"), name=name, **more)


def named(rows):
    return [row.job.rpartition("-")[0] for row in rows]


def without_marks(store):
    """Entries as earlier versions wrote them."""
    for entry in list(store.list(layout.JOURNAL)):
        store._backend.delete(entry)
        head, _, job = entry.partition("~")
        store.put(f"{head.partition(',')[0]}~{job}", b"")


@pytest.mark.parametrize("old", [False, True])
def test_jobs_by_user_queue_tag_and_name(old):
    target, backend = pipeline()
    sent(target, "tiles", tags={"team": "a", "run": "7"})
    sent(target, "masks", tags={"team": "b"}, queue="gpu")
    backend.user = lambda: "grace"
    sent(target, "nightly-tiles", tags={"team": "a"})
    if old:
        without_marks(target.store)
    cases = [
        ({}, ["nightly-tiles", "masks", "tiles"]),
        ({"user": "ada"}, ["masks", "tiles"]),
        ({"user": "ad"}, []),
        ({"queue": "gpu"}, ["masks"]),
        ({"tags": {"team": "a"}}, ["nightly-tiles", "tiles"]),
        ({"tags": {"team": "a", "run": "7"}}, ["tiles"]),
        ({"tags": {"team": "a"}, "user": "ada"}, ["tiles"]),
        ({"tags": {"run": "8"}}, []),
        ({"name": "*tiles"}, ["nightly-tiles", "tiles"]),
        ({"name": "tiles"}, ["tiles"]),
        ({"user": "ada", "limit": 1}, ["masks"]),
    ]
    for asked, expected in cases:
        assert named(target.jobs(**asked)) == expected, asked


def test_a_mark_that_two_values_share_finds_no_wrong_job(monkeypatch):
    monkeypatch.setattr(journal, "_MARK", 1)
    mark = journal.marks_of(None, None, {"team": "a"})
    other = next(text for text in map(str, range(1000)) if journal.marks_of(None, None, {"team": text}) == mark)
    target, _ = pipeline()
    sent(target, "tiles", tags={"team": "a"})
    assert target.jobs(tags={"team": other}) == []
    assert named(target.jobs(tags={"team": "a"})) == ["tiles"]


def test_jobs_of_a_time_and_pages():
    target, backend = pipeline()
    for n in range(5):
        backend.at = lambda n=n: FIRST + timedelta(hours=n, milliseconds=700)
        sent(target, f"n{n}")
    assert named(target.jobs(since=FIRST + timedelta(hours=3))) == ["n4", "n3"]
    page = target.jobs(limit=2, until=FIRST + timedelta(hours=2, seconds=1))
    assert named(page) == ["n2", "n1"]
    assert named(target.jobs(limit=2, until=datetime.fromisoformat(page[-1].created_at))) == ["n1", "n0"]


def test_jobs_by_state_look_at_each_that_has_ended_once(reads):
    target, backend = pipeline()
    jobs = [sent(target, f"n{n}") for n in range(4)]
    backend.run(target, jobs[0].id)
    backend.run(target, jobs[1].id, fail_items=[1])
    jobs[2].cancel()
    for _ in range(2):
        assert named(target.jobs(state="succeeded")) == ["n0"]
        assert named(target.jobs(state=["failed", "cancelled"])) == ["n2", "n1"]
        assert named(target.jobs(state="waiting")) == ["n3"]
    reads.taken()
    assert named(target.jobs(state="waiting")) == ["n3"]
    assert reads.taken()["get job.json"] == 2  # The one that is cancelled, too: its last chunks may still end.
    jobs[1].retry()
    assert named(target.jobs(state=["waiting", "running"])) == ["n3", "n1"]
    assert target.jobs(state="failed") == []


def test_a_job_with_the_id_of_one_that_is_gone_does_not_have_its_end(monkeypatch):
    target, backend = pipeline()
    job = sent(target, "tiles")
    backend.run(target, job.id)
    assert named(target.jobs(state="succeeded")) == ["tiles"]
    target.housekeeping.removal(job.id).carry_out()
    backend.at = lambda: datetime.now(UTC) + timedelta(minutes=1)
    assert sent(target, "tiles", force=True).id == job.id
    assert target.jobs(state="succeeded") == []
    assert named(target.jobs(state=["waiting", "running", "lost"])) == ["tiles"]


def test_who_may_only_read_lists_by_state(monkeypatch):
    target, backend = pipeline()
    backend.run(target, sent(target, "tiles").id)

    def refused(store, name, *args, **more):
        raise StoreDeniedError(f"{name} is refused.")

    monkeypatch.setattr(Store, "put", refused)
    assert named(target.jobs(state="succeeded")) == ["tiles"]


def test_thousands_of_jobs_that_are_not_meant_are_not_read(reads):
    target, backend = pipeline()
    real = sent(target, "tiles", tags={"team": "a"})
    backend.run(target, real.id)
    spec = real.spec
    for n in range(MANY):
        other = spec.model_copy(
            update={"job": f"old-{n:08x}", "name": "old", "user": "grace", "created_at": FIRST + timedelta(minutes=n)}
        )
        target.store.put(layout.spec(other.job), b"{}")
        target.store.put(layout.end(other.job, 1, "succeeded"), b"")
        journal.enter(target.store, other)
    some: list[dict[str, Any]] = [{"user": "ada"}, {"state": "waiting"}, {"name": "tiles"}]
    for asked in (*some, {"tags": {"team": "a"}, "user": "ada"}):
        reads.taken()
        target.jobs(**asked)
        assert reads.taken().get("get job.json", 0) <= 1, asked


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "done"},
        {"state": ["failed", 7]},
        {"user": 7},
        {"since": "2h"},
        {"since": FIRST + timedelta(hours=1), "until": FIRST},
        {"tags": "a=b"},
        {"queue": []},
    ],
)
def test_what_is_no_filter_is_named(wrong):
    target: Any = pipeline()[0]
    with pytest.raises(CallerError) as caught:
        target.jobs(**wrong)
    assert caught.value.what.partition("[")[0] == next(iter(wrong))


def test_a_named_submit_lists_the_jobs_once(monkeypatch):
    target, _ = pipeline()
    listed, real = [], Store.folders
    monkeypatch.setattr(Store, "folders", lambda store, prefix: listed.append(prefix) or real(store, prefix))
    for items in (2, 3, 3):
        target.submit(COMMAND, uris(items), queue="cpu", name="tiles")
        assert listed.count(layout.JOBS) == 1
        listed.clear()
