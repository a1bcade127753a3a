"""A job that no machine begins with in time, on both clouds: it ends with the reason, whoever finds it first.

On GCP the real reconciler ends it without any client. That its messages are dropped then is tested with other ended
jobs (`test_predecessors_gcp.py`, `ended_jobs.py`).
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.unit.client.rounds.test_predecessors_gcp import Google, reconcile
from tests.unit.client_fakes import pipeline, uris
from tests.unit.every_cloud import GcpWorld
from tidemill import layout
from tidemill.client import Job, Pipeline
from tidemill.descriptor import SPEC_VERSION
from tidemill.errors import CallerError

COMMAND = ["p", "{uri}"]
REASON = "start_within_seconds: no machine has begun with it within 6 h"


@pytest.fixture
def world(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> GcpWorld:
    made = GcpWorld(tmp_path, monkeypatch)
    newer = made.pipeline.descriptor.model_copy(update={"max_spec": SPEC_VERSION})
    made.pipeline = Pipeline(newer, made.pipeline.store, made.pipeline.site.backend("cpu"))
    return made


def sent(world: GcpWorld) -> Job:
    return world.pipeline.submit(COMMAND, uris(4), queue="cpu", name="tiles", chunk_size=2, start_within="6h")


def notes(world: GcpWorld) -> list[str]:
    return list(world.pipeline.store.list(layout.FLEET_HELD))


def test_on_gcp_the_reconciler_ends_it_and_a_resume_begins_anew(world: GcpWorld):
    google, job = Google(world), sent(world)
    assert notes(world) == [layout.start_limit(job.id)]
    assert reconcile(google, 6 * 3600 - 60) == []
    assert reconcile(google, 6 * 3600 + 60) == [f"{job.id} ends: {REASON}"]
    assert not notes(world)
    status = job.status()
    assert (status.state, status.note) == ("cancelled", f"stopped: {REASON}")
    assert job.resume().round == 1
    assert reconcile(google, 6 * 3600 - 60) == []
    world.work(job.id)
    assert reconcile(google, 6 * 3600 + 60) == [f"{job.id}: started in time"]
    assert job.status().state == "succeeded"


def test_one_that_has_started_does_not_end(world: GcpWorld):
    google, job = Google(world), sent(world)
    world.pipeline.store.put(layout.attempts(layout.ChunkKey(job.id, 0, 1)) + "/a1", b"{}")
    assert reconcile(google, 7 * 3600) == [f"{job.id}: started in time"]
    assert job.resume().round is None
    assert not notes(world)


def test_one_that_was_cancelled_is_left_alone(world: GcpWorld):
    google, job = Google(world), sent(world)
    job.cancel()
    assert reconcile(google, 7 * 3600) == [f"{job.id}: its limit for the start is not wanted any more"]


@pytest.mark.parametrize("begins", [False, True])
def test_on_aws_whoever_looks_ends_it(begins: bool, monkeypatch: pytest.MonkeyPatch):
    target, backend = pipeline(max_spec=SPEC_VERSION)
    told: list[str] = []
    job = target.submit(COMMAND, uris(4), queue="cpu", start_within="6h", log=told.append)
    assert any("the first machine that would begin with it later ends it" in text for text in told)
    assert job.status().state == "waiting"
    if begins:
        target.store.put(layout.attempts(layout.ChunkKey(job.id, 0, 0)) + "/a1", b"{}")
    now = time.time() + 6 * 3600 + 1
    monkeypatch.setattr(backend, "now", lambda: now)
    status = job.wait(poll_seconds=0.001) if not begins else job.status()
    assert status.state == ("waiting" if begins else "cancelled")
    assert [fake.terminated for fake in backend.arrays] == [not begins]
    assert begins or REASON in str(status.note)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"start_within": 0}, "start_within_seconds is 0; it must be from 60 to 2419200 seconds"),
        ({"start_within": "30s"}, "start_within_seconds is 30.0; it must be from 60"),
        ({"start_within": "soon"}, "start_within is 'soon'; it must be a time"),
        ({"start_within": "6h", "after": ["first"]}, "start_within_seconds is given, and the job waits for others"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], words: str):
    target, _ = pipeline(max_spec=SPEC_VERSION)
    target.submit(COMMAND, uris(1), queue="cpu", name="first")
    before = list(target.store.list(""))
    with pytest.raises(CallerError) as caught:
        target.submit(COMMAND, uris(4), queue="cpu", **given)
    assert str(caught.value).startswith(words)
    assert list(target.store.list("")) == before
