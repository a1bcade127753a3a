"""How the store treats S3's answers, over HTTP and with obstore's own retries. The server answers as told; that S3
answers so is a row of docs/cloud-facts.md."""

from __future__ import annotations

import re
from typing import Literal

import pytest

from tests.loopback_s3 import LoopbackS3
from tests.stored import failed_chunks, write_manifest, write_round, write_spec
from tests.unit.client_fakes import FakeBackend, descriptor, outcome
from tidemill.client import Job, Pipeline, journal
from tidemill.client.items.open_items import open_items
from tidemill.client.plan.spec import build_spec
from tidemill.client.results import fetch
from tidemill.client.results.fetch_target import INDEX
from tidemill.errors import CallerError, StoreDeniedError, StoreError, StoreMissingError
from tidemill.ledger import Ledger, Outcome, Round, RoundArray
from tidemill.store import Store, Stores
from tidemill.store import store as module

JOB = "t-00000000"


class Bucket(LoopbackS3):
    """A bucket with chosen answers: ``faults`` are (method, pattern of the key, what to do), each used once."""

    def __init__(self) -> None:
        super().__init__("bucket")
        self.faults: list[tuple[str, str, str]] = []
        self.requests: list[tuple[str, str]] = []
        self.forbidden = ""

    def hide_absence(self) -> None:
        """403 instead of 404, as for a role that may list only some prefixes."""
        self.missing = ("403", "AccessDenied")

    def fault(self, method: str, key: str, conditional: bool) -> str | None:
        self.requests.append((method, key))
        if self.forbidden and method == "GET" and key.startswith(self.forbidden):
            return "403"
        for fault in self.faults:
            if fault[0] == method and re.search(fault[1], key):
                self.faults.remove(fault)
                return fault[2]
        return None


@pytest.fixture
def bucket(monkeypatch):
    monkeypatch.setattr(module, "_PAUSES", (0.0, 0.0, 0.0))
    with Bucket().running() as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        yield bucket


@pytest.fixture
def ledger(bucket):
    return Ledger(Store.open("s3://bucket"), JOB)


def commit(ledger: Ledger, attempt: str, status: Literal["succeeded", "failed"] = "succeeded"):
    return ledger.chunk(0, 3).commit(attempt, [Outcome(index=0, uri="u", status=status)])


@pytest.mark.parametrize("fault", ["409", "500-after", "drop", "drop-after"])
def test_our_own_commit_is_never_taken_for_anothers(bucket, ledger, fault):
    bucket.faults = [("PUT", "/done/", fault)]
    assert commit(ledger, "a1").won
    assert bucket.faults == []
    record = ledger.chunk(0, 3).committed()
    assert record is not None
    assert record.header.attempt == "a1"
    assert sum(method == "PUT" for method, key in bucket.requests) >= (1 if fault == "drop-after" else 2)


@pytest.mark.parametrize("fault", [None, "409", "drop"])
def test_anothers_commit_is_never_taken_for_ours(bucket, ledger, fault):
    assert commit(ledger, "a1", "failed").won
    bucket.faults = [("PUT", "/done/", fault)] if fault else []
    lost = commit(ledger, "a2")
    assert not lost.won
    assert lost.record.header.attempt == "a1"
    assert failed_chunks(ledger, 0) == {3: 1}


def test_a_store_that_only_conflicts_gives_no_answer(bucket, ledger):
    bucket.faults = [("PUT", "/done/", "409")] * 8
    with pytest.raises(StoreError):
        commit(ledger, "a1")
    assert not any("/done/" in key for key in bucket.objects)


def test_absence_is_absence_for_a_role_that_may_list_only_prefixes(bucket, ledger):
    bucket.hide_absence()
    assert not ledger.is_cancelled()
    assert ledger.chunk(0, 3).committed() is None
    bucket.objects[f"jobs/{JOB}/cancellee"] = b""
    bucket.objects[f"jobs/{JOB}/job.json"] = b""
    assert not ledger.is_cancelled()
    ledger.cancel()
    assert ledger.is_cancelled()


def test_a_refusal_of_what_is_there_is_a_refusal(bucket, ledger):
    bucket.objects["jobs/x"] = b"1"
    bucket.forbidden = "jobs/x"
    with pytest.raises(StoreDeniedError):
        ledger.store.get("jobs/x")


def test_a_listing_that_breaks_off_goes_on(bucket, ledger):
    for n in range(5):
        bucket.objects[f"jobs/{JOB}/r0/done/{n}/{n}.jsonl"] = b""
    bucket.faults = [("GET", "^$", "drop")]
    assert ledger.done_chunks(0) == set(range(5))


def test_a_name_that_cannot_be_asked_for_is_said_at_once(bucket):
    store, name = Stores(None).locate("s3://bucket/a//b")
    with pytest.raises(CallerError, match=r"by its \{uri\}"):
        store.size(name)


def test_a_spec_is_written_once_whatever_the_answer(bucket, ledger):
    spec = build_spec(name="t", queue="q", command=["p"], chunk_size=1, items_total=1, chunks_total=1, job=JOB)
    bucket.faults = [("PUT", "job.json", "drop-after")]
    assert write_spec(ledger, spec) == write_spec(ledger, spec)


# ---- items of a submit ----------------------------------------------------------------------------------------------


def listed(source: str) -> list[str]:
    stores = Stores(region="us-west-2", user_login=True)
    return [uri for block in open_items(source, stores=stores) for uri in block.uris]


@pytest.mark.parametrize("name", ["h//b", "h/./b", "h/x&#9;y"])
def test_a_name_that_cannot_be_read_is_told_and_not_its_prefix_alone(bucket, name):
    bucket.objects = {"h/a": b"x", name: b"x"}
    with pytest.raises(CallerError) as error:
        listed("s3://bucket/h/")
    assert f"the name {name.replace('&#9;', chr(9))!r} has an empty, `.` or `..` part" in str(error.value)


@pytest.mark.parametrize("name", ["../owned", "a//b", "./x"])
@pytest.mark.parametrize("items", [None, [0, 1]])
def test_a_name_that_cannot_be_read_is_a_problem_of_its_item(bucket, ledger, tmp_path, monkeypatch, *, name, items):
    monkeypatch.setattr(fetch, "LISTED_TOGETHER", 1 if items else 100)
    uris = [f"s3://raw/{n}.jpg" for n in range(3)]
    described = descriptor().model_copy(update={"store": "s3://bucket"})
    write_manifest(ledger.store, JOB, uris, 3)
    spec = build_spec(name="t", queue="cpu", command=["x"], chunk_size=3, items_total=3, chunks_total=1, job=JOB)
    write_spec(ledger, spec)
    write_round(ledger, Round(round=0, arrays=[RoundArray(name="a", first=0, count=1)]))
    job = Job(Pipeline(described, ledger.store, FakeBackend()).site, spec)
    outcomes = [outcome(n, uri, failed=False) for n, uri in enumerate(uris)]
    for found in outcomes:
        found.output = f"{job.output}/{found.index}/a.1/"
        bucket.objects[f"{found.output}x.npy".removeprefix("s3://bucket/")] = b"%d" % found.index
    ledger.chunk(0, 0).commit("a.1", outcomes)
    bucket.objects[f"{outcomes[1].output}{name}".removeprefix("s3://bucket/")] = b"owned"
    report = job.fetch(tmp_path / "a/b/out", items=items)
    there = [n for n in (0, 2) if items is None or n in items]
    brought = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != INDEX]
    assert sorted(brought) == [tmp_path / f"a/b/out/{n}/x.npy" for n in there]
    ((item, why),) = report.moved.problems
    assert item == "1"
    assert "has an empty, `.` or `..` part or a control character" in why
    assert (report.complete, report.gone.count, report.whole) == (len(there), 0, False)


@pytest.mark.parametrize("name", ["jobs//x", "jobs/../x", "jobs/.journal//x"])
def test_jobs_are_listed_whatever_a_program_has_stored(bucket, ledger, name):
    spec = build_spec(name="t", queue="q", command=["p"], chunk_size=1, items_total=1, chunks_total=1, job=JOB)
    write_spec(ledger, spec)
    journal.enter(ledger.store, spec)
    bucket.objects[name] = b"x"
    assert [found.job for found in journal.newest_specs(ledger.store)] == [JOB]


def test_jobs_that_cannot_be_listed_are_told_in_a_sentence(bucket, ledger):
    bucket.objects = {"jobs//x": b"x", "jobs/.journal//x": b"x"}
    with pytest.raises(CallerError, match="jobs cannot be listed"):
        next(journal.newest_specs(ledger.store))


def test_a_folders_marker_that_is_not_empty_is_not_an_item(bucket):
    bucket.objects = {"h/": b"", "h/x/": b"\n", "h/x/1": b"1", "h/y": b"y", "h/y/2": b"2"}
    assert listed("s3://bucket/h/") == ["s3://bucket/h/x/1", "s3://bucket/h/y", "s3://bucket/h/y/2"]


def test_a_stores_refusal_is_one_sentence(bucket, monkeypatch):
    monkeypatch.setattr(bucket, "fault", lambda method, key, conditional: "403")
    with pytest.raises(StoreDeniedError) as error:
        listed("s3://bucket/h/")
    assert str(error.value) == "LIST of s3://bucket/h/ was refused: AccessDenied"


def test_a_bucket_that_does_not_exist_is_said(bucket):
    with pytest.raises(StoreMissingError) as error:
        listed("s3://mars/h/")
    assert str(error.value) == "The bucket of s3://mars/h/ does not exist."
