"""The document of shared outcomes: its form, and what a hostile one cannot do."""

from __future__ import annotations

import hashlib
import json
import struct

import pytest
import zstandard

from tests.stored import submitted
from tests.unit.client_fakes import ran
from tidemill import layout
from tidemill.errors import DamagedError, StoreMissingError
from tidemill.ledger import Outcome
from tidemill.ledger.shared import SharedOutcomes, SharedRange, SharedReader, SharedRound
from tidemill.store import Store

FIRST, JOB = "words-0123abcd", "words-4567abcd"


def source(job=FIRST, number=0):
    return SharedRound(job=job, round=number, at=1.0)


def written(store, data):
    sha256 = hashlib.sha256(data).hexdigest()
    store.put(layout.shared(JOB, sha256), data)
    return sha256


def document(sources, *runs):
    head = json.dumps({"sources": sources}).encode()
    data = b"".join(struct.pack("<QIIQ", *run) for run in runs)
    return zstandard.ZstdCompressor().compress(head + b"\n" + data)


def test_neighbours_are_one_run_and_come_back():
    items = [(0, 0, 5), (1, 0, 6), (2, 1, 7), (4, 1, 8), (5, 1, 9)]
    shared = SharedOutcomes.of([source(), source(number=1)], items)
    store = Store.open("memory://")
    again = SharedOutcomes.load(store, JOB, written(store, shared.encode()))
    assert list(again.runs()) == [SharedRange(0, 2, 0, 5), SharedRange(2, 1, 1, 7), SharedRange(4, 2, 1, 8)]
    assert list(again.runs(1, 5)) == [SharedRange(1, 1, 0, 6), SharedRange(2, 1, 1, 7), SharedRange(4, 1, 1, 8)]
    assert list(again.runs(3, 4)) == []
    assert len(again) == 5
    assert again.by_job == {FIRST: 5}


def test_twenty_thousand_items_in_any_order_are_bytes_and_no_objects():
    shared = SharedOutcomes.of([source()], ((item, 0, (item * 7919) % 20_000) for item in range(20_000)))
    assert len(shared._runs) <= 24 * 20_000
    assert isinstance(shared._runs, bytes)
    assert [run.origin for run in shared.runs(10_000, 10_001)] == [(10_000 * 7919) % 20_000]


@pytest.mark.parametrize(
    ("sources", "runs"),
    [
        ([{"job": "../../etc", "round": 0, "at": 1}], [(0, 1, 0, 0)]),
        ([{"job": FIRST, "round": -1, "at": 1}], [(0, 1, 0, 0)]),
        ([{"job": FIRST, "round": 0, "at": 1}], [(0, 1, 1, 0)]),
        ([{"job": FIRST, "round": 0, "at": 1}], [(0, 2, 0, 0), (1, 1, 0, 5)]),
        ([{"job": FIRST, "round": 0, "at": 1}], [(0, 0, 0, 0)]),
        ("nothing", []),
    ],
)
def test_a_document_that_no_submit_wrote_is_damaged(sources, runs):
    store = Store.open("memory://")
    sha256 = written(store, document(sources, *runs))
    with pytest.raises(DamagedError):
        SharedOutcomes.load(store, JOB, sha256)


@pytest.mark.parametrize("data", [b"", b"no zstd", zstandard.ZstdCompressor().compress(b"{}")])
def test_other_bytes_are_damaged(data):
    store = Store.open("memory://")
    sha256 = written(store, data)
    with pytest.raises(DamagedError):
        SharedOutcomes.load(store, JOB, sha256)


def test_a_changed_document_is_damaged():
    store = Store.open("memory://")
    sha256 = written(store, document([]))
    store.put(layout.shared(JOB, sha256), document([source().model_dump()]))
    with pytest.raises(DamagedError, match="SHA-256"):
        SharedOutcomes.load(store, JOB, sha256)


def first_job(store, output):
    job = submitted(store, ["s3://raw/0", "s3://raw/1"], job=FIRST)
    outcomes = [Outcome(index=n, uri=f"s3://raw/{n}", status="succeeded", output=output) for n in range(2)]
    job.ledger.chunk(0, 0).commit("a1", outcomes, run=ran())
    return job


def read(store, run):
    return list(SharedReader(store, SharedOutcomes.of([source()], [run])).outcomes(0, 10))


def test_an_outcome_is_read_where_it_was_committed():
    store = Store.open("memory://")
    first_job(store, f"memory:/out/{FIRST}/1/a1.1/")
    (found,) = read(store, (7, 0, 1))
    assert (found.index, found.uri, found.origin) == (7, "s3://raw/1", f"{FIRST}/1")


def test_an_item_that_the_other_job_does_not_have_is_damaged():
    store = Store.open("memory://")
    first_job(store, None)
    with pytest.raises(DamagedError, match="has 2"):
        read(store, (0, 0, 2))


@pytest.mark.parametrize("output", ["s3://finance/salaries/", f"memory:/out/{FIRST}-other/0/a/", "/etc/"])
def test_an_output_that_is_not_of_that_job_is_damaged(output):
    store = Store.open("memory://")
    first_job(store, output)
    with pytest.raises(DamagedError, match="is not below"):
        read(store, (0, 0, 0))


def test_what_is_gone_is_told():
    with pytest.raises(StoreMissingError, match="item 0 shares the outcome of item 0"):
        read(Store.open("memory://"), (0, 0, 0))
