"""Jobs after jobs on GCP: what a submit leaves, what the reconciler publishes, and what a client publishes.

The reconciler's real code runs over the job store of the client's real code, behind the requests that it sends. How
Google answers is written down here and in localcloud, not proved.
"""

from __future__ import annotations

import io
import json
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from components.gcp.reconciler_function.chains import CLIENT_SECONDS, release
from components.gcp.reconciler_function.cloud import Cloud
from tests.unit.every_cloud import DyingError, GcpWorld
from tests.unit.google_fakes import Message
from tidemill import layout
from tidemill.client import Job, Pipeline, deliveries
from tidemill.ledger import Ledger
from tidemill.ledger.gate import begun_at, look
from tidemill.store import Store

OBJECTS = "https://storage.googleapis.com/storage/v1/b/store/o"
UPLOAD = "https://storage.googleapis.com/upload/storage/v1/b/store/o"
PUBSUB = "https://pubsub.googleapis.com/v1/"


class Answer:
    def __init__(self, code: int, content: bytes) -> None:
        self.status_code, self.content, self.text = code, content, content.decode(errors="replace")
        self.headers = {"Date": formatdate(time.time(), usegmt=True)}

    def json(self) -> Any:
        return json.load(io.BytesIO(self.content))


class Google:
    """Cloud Storage and Pub/Sub as the reconciler calls them, over a store and a world's messages."""

    def __init__(self, world: GcpWorld) -> None:
        self.world, self.store = world, world.pipeline.store
        self.dies_before = ""
        self.published: list[tuple[int, int]] = []

    def request(self, method: str, url: str, **more: Any) -> Answer:
        more.pop("timeout")
        if self.dies_before and self.dies_before in (method, url, more.get("params", {}).get("name", "")):
            raise KeyboardInterrupt
        if url.startswith(PUBSUB):
            return self._publish(url, **more)
        if url == UPLOAD:
            return self._create(**more)
        if url == OBJECTS:
            prefix = more["params"]["prefix"]
            names = [{"name": name} for name in self.store.list(prefix.rpartition("/")[0]) if name.startswith(prefix)]
            return Answer(200, json.dumps({"items": names}).encode())
        name = unquote(url.removeprefix(OBJECTS + "/"))
        data = self.store.find(name)
        if data is None:
            # The function may not list the bucket.
            return Answer(403, b"denied")
        if method == "DELETE":
            Path(self.store.uri.removeprefix("file://"), name).unlink()
            return Answer(204, b"")
        return Answer(200, data)

    def _create(self, params: dict[str, str], data: bytes, headers: dict[str, str] | None = None) -> Answer:
        if "ifGenerationMatch" not in params:
            self.store.put(params["name"], data)
            return Answer(200, b"{}")
        assert params["ifGenerationMatch"] == "0"
        return Answer(200 if self.store.create(params["name"], data).ours else 412, b"{}")

    def _publish(self, url: str, json: dict[str, Any]) -> Answer:
        if "/subscriptions/" in url:
            return self._consume(url.removeprefix(PUBSUB), json)
        assert url == f"{PUBSUB}projects/vision-dev-1/topics/cpu:publish"
        for message in json["messages"]:
            self.world.google.messages[self.world.subscription].append(Message(message["attributes"]))
            self.published.append((int(message["attributes"]["round"]), int(message["attributes"]["chunk"])))
        return Answer(200, b"{}")

    def _consume(self, path: str, body: dict[str, Any]) -> Answer:
        name, _, verb = path.partition(":")
        call = getattr(self.world.google, f"_pubsub_projects_subscriptions_{verb.lower()}")
        return Answer(200, json.dumps(call(name, {}, body)).encode())


@pytest.fixture
def world(tmp_path, monkeypatch):
    made = GcpWorld(tmp_path, monkeypatch)
    newer = made.pipeline.descriptor.model_copy(update={"max_spec": 4})
    made.pipeline = Pipeline(newer, made.pipeline.store, made.pipeline.backend)
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", 300)
    return made


@pytest.fixture
def google(world):
    return Google(world)


def submit(world: GcpWorld, name: str, items: int = 4, **more: Any) -> Job:
    uris = [f"gs://raw/{n}.jpg" for n in range(items)]
    return world.pipeline.submit(["p"], uris, queue="cpu", name=name, chunk_size=2, **more)


def reconcile(google: Google, seconds: float = 0) -> list[str]:
    cloud = Cloud("p", "r", "store", google, pause=lambda _: None)
    cloud.now = lambda: time.time() + seconds  # type: ignore[method-assign]
    done, failures = release(cloud)
    assert not failures
    return done


def held(world: GcpWorld) -> list[str]:
    return list(world.pipeline.store.list(layout.FLEET_HELD))


def test_nothing_is_published_before_the_other_job_is_complete(world, google):
    first = submit(world, "first")
    second = submit(world, "second", after=["first"])
    assert second.enqueued == 0
    assert reconcile(google) == []
    assert not world.delivered(second.id)
    assert second.status().note == f"waits for {first.id} (0 of 4 items)"
    world.work(first.id, fail=[1])
    assert reconcile(google) == [f"{second.id}: published 2 chunks of round 0"]
    assert google.published == [(0, 0), (0, 1)]
    assert not held(world)
    assert reconcile(google) == []
    world.work(second.id)
    assert second.status().state == "finished"


def test_a_client_publishes_what_is_due_and_the_reconciler_does_not(world, google):
    first = submit(world, "first")
    second = submit(world, "second", after=["first"])
    world.work(first.id)
    assert second.status().waits_for == []
    assert sorted(world.delivered(second.id).values()) == [1, 1]
    assert reconcile(google) == []
    assert reconcile(google, CLIENT_SECONDS + 1) == [f"{second.id}: published 0 chunks of round 0"]
    assert not google.published
    assert not held(world)


def test_what_a_client_began_and_did_not_publish_the_reconciler_finishes(world, google, monkeypatch):
    first = submit(world, "first")
    second = submit(world, "second", after=["first"])
    world.work(first.id)
    world.die_after(0)
    with pytest.raises(DyingError):
        second.status()
    world.die_after(None)
    assert reconcile(google, CLIENT_SECONDS - 10) == []
    assert reconcile(google, CLIENT_SECONDS + 1) == [f"{second.id}: published 2 chunks of round 0"]
    assert second.status().state == "waiting"


@pytest.mark.parametrize("before", ["DELETE", f"{PUBSUB}projects/vision-dev-1/topics/cpu:publish", "published"])
def test_a_reconciler_that_dies_goes_on_in_its_next_run(world, google, before):
    first = submit(world, "first")
    second = submit(world, "second", after=["first"])
    world.work(first.id)
    google.dies_before = layout.publication(second.id, 0, 0, 2) if before == "published" else before
    with pytest.raises(KeyboardInterrupt):
        reconcile(google)
    google.dies_before = ""
    reconcile(google)
    # Only what was on its way when it died is there twice.
    assert len(google.published) == (4 if before == "published" else 2)
    assert not held(world)
    world.work(second.id)
    assert second.status().state == "finished"


def test_a_cancelled_job_ends_those_after_it_without_any_client(world, google):
    first = submit(world, "first")
    second = submit(world, "second", after=["first"])
    first.cancel()
    assert "is cancelled" in reconcile(google)[0]
    status = second.status()
    assert status.state == "cancelled"
    assert status.note == (
        f"stopped: {first.id} is cancelled, and this job runs after it. `tidemill resume {first.id}`, then "
        f"`tidemill resume {second.id}` continues it."
    )
    first.resume()
    second.resume()
    assert len(held(world)) == 1
    world.work(first.id)
    assert reconcile(google) == [f"{second.id}: published 2 chunks of round 1"]


def test_failures_end_a_job_that_runs_after_success(world, google):
    first = submit(world, "first")
    second = submit(world, "second", after_success=["first"])
    world.work(first.id, fail=[3])
    assert "1 of the 4 items" in reconcile(google)[0]
    first.retry()
    second.resume()
    assert reconcile(google) == []
    world.work(first.id)
    assert reconcile(google) == [f"{second.id}: published 2 chunks of round 1"]


def test_a_cancelled_waiting_job_is_not_published(world, google):
    first = submit(world, "first")
    second = submit(world, "second", after=["first"])
    second.cancel()
    world.work(first.id)
    assert reconcile(google) == [f"{second.id}: round 0 is not wanted any more"]
    assert not google.published


def test_an_expired_job_leaves_nothing_behind(world, google):
    submit(world, "first")
    second = submit(world, "second", after=["first"])
    there = Store.list
    world.pipeline.store.list = lambda prefix, *a, **k: (  # type: ignore[method-assign]
        iter(()) if prefix == layout.rounds(second.id) else there(world.pipeline.store, prefix, *a, **k)
    )
    assert reconcile(google) == [f"{second.id}: round 0 is not wanted any more"]


def test_rubbish_is_a_failure_and_holds_nobody_up(world, google):
    first = submit(world, "first")
    second = submit(world, "second", after=["first"])
    world.pipeline.store.put(layout.held("a-00000000"), b"{")
    world.work(first.id)
    done, failures = release(Cloud("p", "r", "store", google, pause=lambda _: None))
    assert done == [f"{second.id}: published 2 chunks of round 0"]
    assert len(failures) == 1
    assert "a-00000000" in failures[0]


def test_it_counts_as_the_ledger_does(world, google, monkeypatch):
    """Retries of some items, large rounds with lists of their own, lost chunks and disputed markers."""
    monkeypatch.setattr("tidemill.ledger.ledger.INLINE_CHUNKS", 1)
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    first = submit(world, "first", items=8)
    second = submit(world, "second", after_success=["first"])
    ledger = Ledger(world.pipeline.store, first.id)

    def agree(waits: bool, never: str = "") -> None:
        gate = look(world.pipeline.store, second.spec.after)
        assert (bool(gate.waits), gate.never.why if gate.never else "") == (waits, never)
        if not never:
            assert bool(reconcile(google)) is not waits

    agree(True)
    world.work(first.id, fail=[0, 3, 4])
    first.retry([0, 3])
    agree(True)
    world.work(first.id, fail=[0])
    agree(False, f"2 of the 8 items of {first.id} failed")
    first.retry()
    agree(True)
    world.work(first.id)
    # An attempt that lost the race has counted otherwise.
    world.pipeline.store.put(layout.failed(first.id, 2, 0, 1), b"")
    world.pipeline.store.put(layout.failed(first.id, 2, 0, 0), b"")
    assert ledger.counts().failed == 0
    agree(False)
    assert begun_at(world.pipeline.store, second.spec)
