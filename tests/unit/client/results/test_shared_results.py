"""Shared outcomes as each command reads them, from a store in memory. What this cannot prove: a cloud's own listings
and lifecycle rules."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from tests.unit.client_fakes import FakeBackend, descriptor, ran, uris
from tidemill import layout
from tidemill.chain import JobFiles
from tidemill.client import Job, Pipeline
from tidemill.client.report.page import page_of
from tidemill.descriptor import SPEC_VERSION
from tidemill.ending.message import message_of
from tidemill.errors import StoreMissingError
from tidemill.ledger import Ledger, Outcome
from tidemill.manifest import read_chunk
from tidemill.store import Store, Stores, store


def pipeline(**changes: Any) -> Pipeline:
    return Pipeline(descriptor(max_spec=SPEC_VERSION, **changes), Store.open("memory://"), FakeBackend())


def submitted(target: Pipeline, items: list[str], **settings: Any) -> Job:
    given: dict[str, Any] = {"queue": "cpu", "name": "words", "chunk_size": 3} | settings
    target.store.uri = "memory://"
    job = target.submit(["x", "{uri}"], items, **given)
    # From now on it is listed like a bucket.
    target.store.uri = "s3://store"
    return job


def done(target: Pipeline, items: list[str], **settings: Any) -> Job:
    """A job whose items have run: each has written its own name."""
    job = submitted(target, items, **settings)
    ledger = Ledger(target.store, job.id, job.spec.manifest)
    for round_ in ledger.rounds():
        for chunk in round_.enqueued():
            wanted = round_.runs(chunk)
            outcomes = [
                _written(target.store, job, item.index, item.uri)
                for item in read_chunk(target.store, job.id, chunk)
                if wanted is None or item.index in wanted
            ]
            ledger.chunk(round_.round, chunk).commit("a1", outcomes, run=ran())
    return job


def _written(into: Store, job: Job, index: int, uri: str) -> Outcome:
    folder = f"{layout.out(job.id)}/{index}/a1.1"
    into.put(f"{folder}/name.txt", uri.encode())
    into.put(f"{layout.out(job.id)}/{index}/a0.1/lost.txt", b"of an attempt that does not count")
    output = f"s3://store/{folder}/"
    return Outcome(index=index, uri=uri, status="succeeded", attempts=1, wall_seconds=0.5, output=output)


@pytest.fixture
def target() -> Pipeline:
    return pipeline()


def test_fetch_brings_what_earlier_jobs_have_written(target, tmp_path):
    done(target, uris(5))
    a, b, *rest = uris(7)
    done(target, [a, b, "s3://raw/x.jpg", *rest], changed=True)
    job = submitted(target, [*rest[::-1], a, a], changed=True)
    assert job.enqueued == 0
    report = job.fetch(tmp_path / "f", name="{index}")
    assert report.whole
    got = {int(file.parent.name): file.read_text() for file in (tmp_path / "f").glob("*/name.txt")}
    assert got == dict(enumerate([*rest[::-1], a, a]))
    assert list((tmp_path / "f").glob("*/lost.txt")) == []


def test_a_chain_reads_them_too(target):
    first = done(target, uris(3))
    job = done(target, [*uris(4)[::-1]], changed=True)
    files = JobFiles(Stores(target.store))
    (one,) = files.find(f"job://{job.id}/output/1").tree.files
    assert target.store.get(one.object) == b"s3://raw/2.jpg"
    every = files.find(f"job://{job.id}/output").tree.files
    assert {file.path: target.store.get(file.object).decode() for file in every} == {
        f"{index}/name.txt": uri for index, uri in enumerate(uris(4)[::-1])
    }
    assert first.id in str([file.object for file in every])


def test_a_job_after_one_that_is_shared_may_begin(target):
    done(target, uris(3))
    job = submitted(target, uris(2), changed=True)
    after = submitted(target, ["a"], name="next", after_success=[job.id])
    assert after.status().waits_for == []
    assert after.enqueued == 1


def test_each_reader_says_where_results_are_from(target):
    first = done(target, uris(20))
    job = done(target, uris(21), changed=True)
    said = f"20 of {first.id}, 1 of this job"
    assert job.status().facts()["shared"] == said
    assert said in page_of(job.report())
    assert job.report().succeeded == 21
    message = message_of(job.spec, Ledger(target.store, job.id, job.spec.manifest).listing())
    assert message is not None
    assert (message.state, message.succeeded, message.shared) == ("succeeded", 21, 20)
    assert "20 of them shared" in message.text
    frame = job.to_pandas()
    assert frame.origin.notna().sum() == 20
    assert [row.succeeded for row in target.jobs()] == [21, 20]


def test_what_expires_before_the_new_job_would_runs_again(monkeypatch):
    target = pipeline(expire_jobs_after_days=10)
    said: list[str] = []
    done(target, uris(4))
    monkeypatch.setattr(target.site.account, "now", lambda: time.time() + 6 * 86_400)
    job = submitted(target, uris(5), new=True, log=said.append)
    assert job.spec.shared is None
    assert any("4 of them ran before" in words and "expire" in words for words in said)


def test_items_of_a_job_that_has_expired_run_again(target):
    first = done(target, uris(3))
    second = done(target, uris(4), changed=True)
    for name in list(target.store.list(f"jobs/{first.id}")):
        # Only the store's lifecycle rules delete; the store has no call for that.
        store.obstore.delete(target.store._backend, name)
    with pytest.raises(StoreMissingError, match=f"item 0 shares the outcome of item 0 of {first.id}"):
        list(second.results())
    again = done(target, uris(4), changed=True)
    assert again.id != second.id
    assert again.spec.shared is not None
    assert again.spec.shared.jobs == {second.id: 1}
    assert [outcome.index for outcome in again.results()] == [0, 1, 2, 3]


def test_twenty_thousand_items_with_ten_changed_cost_few_requests(target, monkeypatch):
    monkeypatch.setattr(Store, "is_object_store", property(lambda _: True))
    first = target.submit(["x", "{uri}"], uris(20_000), queue="cpu", name="words")
    ledger = Ledger(target.store, first.id, first.spec.manifest)
    for chunk in range(first.spec.chunks_total):
        items = read_chunk(target.store, first.id, chunk)
        ledger.chunk(0, chunk).commit(
            "a1", [Outcome(index=item.index, uri=item.uri, status="succeeded") for item in items], run=ran()
        )
    asked: Counter[str] = Counter()
    real = store._resumed

    def counted(verb, uri, rest):
        asked[f"{verb} {uri}"] += 1
        return real(verb, uri, rest)

    monkeypatch.setattr(store, "_resumed", counted)
    items = uris(20_000)
    items[100:20_000:2_000] = [f"s3://raw/changed-{n}.jpg" for n in range(10)]
    job = target.submit(["x", "{uri}"], items, queue="cpu", name="words", changed=True)
    assert job.spec.shared is not None
    assert job.spec.shared.jobs == {first.id: 19_990}
    round_ = Ledger(target.store, job.id).rounds()[0]
    index = Ledger(target.store, job.id).index()
    assert sum(round_.size(chunk, index) for chunk in round_.enqueued()) == 10
    assert round_.chunks_total == 10
    assert asked.total() <= 40, "\n".join(f"{n} {what}" for what, n in asked.items())
