"""The note of a job's first item."""

from datetime import timedelta

import pytest

from tests.unit.client_fakes import pipeline, uris
from tidemill.cli.openmetrics import text
from tidemill.descriptor import SPEC_VERSION
from tidemill.ledger.first_item import first_item_seconds, note_first_item
from tidemill.ledger.gate import begin


def sent(target, name, **more):
    return target.submit(["x", "{input}"], uris(1), queue="cpu", name=name, **more)


def test_the_first_attempt_to_note_it_counts():
    target, _ = pipeline()
    job = sent(target, "tiles")
    assert job.status().first_item_seconds is None
    assert "first item" not in job.status().facts()
    for seconds, attempt, noted in ((90, "a", 90.0), (80, "b", None)):
        at = job.spec.created_at + timedelta(seconds=seconds)
        assert note_first_item(target.store, job.spec, at, attempt) == noted
    assert job.status().first_item_seconds == job.report().first_item_seconds == 90
    assert job.status().facts()["first item"] == "after 90 s"
    assert 'tidemill_job_first_item_seconds{job="' in text(job.status(), "cpu")


def test_a_job_that_waits_for_others_counts_from_their_end():
    target, _ = pipeline(max_spec=SPEC_VERSION)
    job = sent(target, "masks", after=[sent(target, "tiles").id])
    done = job.spec.created_at + timedelta(hours=1)
    begin(target.store, job.id, "a test", done)
    note_first_item(target.store, job.spec, done + timedelta(seconds=5), "a")
    assert first_item_seconds(target.store, job.id) == pytest.approx(5, abs=0.01)


def test_a_clock_that_is_behind_makes_no_negative_wait():
    target, _ = pipeline()
    job = sent(target, "tiles")
    assert note_first_item(target.store, job.spec, job.spec.created_at - timedelta(seconds=5), "a") == 0
