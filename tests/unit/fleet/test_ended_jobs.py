"""Jobs that end on GCP while no machine can run its worker: who drops their messages, and which messages stay.

As in test_gcp_chains.py, the reconciler's real code runs over the real client's store, and how Google answers is
written down, not proved.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from components.services.pubsub.reconciler_function import ended_jobs
from components.services.pubsub.reconciler_function.cloud import Cloud
from components.services.pubsub.reconciler_function.decide import Group, Machine, QueueState, Sample
from tests.unit.client.rounds.test_predecessors_gcp import Google, submit
from tests.unit.every_cloud import GcpWorld
from tidemill import layout
from tidemill.client import Pipeline

BROKEN = Machine("a", "TERMINATED", broken_at=time.time())
STARTING = Machine("b", "RUNNING")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GcpWorld:
    return GcpWorld(tmp_path, monkeypatch)


@pytest.fixture
def google(world: GcpWorld) -> Google:
    return Google(world)


def drop(google: Google, machines: tuple[Machine, ...] = (BROKEN, STARTING), seconds: float = 0) -> int:
    """One run, so many seconds from now."""
    cloud = Cloud("vision-dev-1", "r", "store", google, pause=lambda _: None)
    cloud.now = lambda: time.time() + seconds  # type: ignore[method-assign]
    count = len(google.world.google.messages[google.world.subscription])
    samples = [Sample(cloud.now() - 60 * minute, count) for minute in range(6)]
    return ended_jobs.drop(cloud, QueueState("cpu", [Group("spot", machines)], samples), "cpu")


def left(world: GcpWorld) -> list[tuple[str, int]]:
    """Job and chunk of the messages that a worker could receive now."""
    messages = world.google.messages[world.subscription]
    assert not [message for message in messages if message.ack_id]
    return [(message.attributes["job"], int(message.attributes["chunk"])) for message in messages]


def pulls(world: GcpWorld, google: Google, seconds: float = 0) -> int:
    """How many messages one run delivers."""
    seen: list[int] = []
    real = world.google._pubsub_projects_subscriptions_pull

    def pull(*args: object) -> dict[str, list[object]]:
        found = real(*args)  # type: ignore[arg-type]
        seen.append(len(found.get("receivedMessages", [])))
        return found

    world.google._pubsub_projects_subscriptions_pull = pull  # type: ignore[method-assign]
    drop(google, seconds=seconds)
    world.google._pubsub_projects_subscriptions_pull = real  # type: ignore[method-assign]
    return sum(seen)


def test_messages_of_a_cancelled_job_are_dropped_and_those_of_others_stay(world, google):
    cancelled, other = submit(world, "cancelled", items=20), submit(world, "other")
    assert drop(google) == 0
    cancelled.cancel()
    assert drop(google) == 10
    assert left(world) == [(other.id, 0), (other.id, 1)]
    assert other.status().state == "waiting"


def test_a_cancel_is_seen_by_the_next_run_and_nothing_is_delivered_while_nothing_changes(world, google):
    first, second = submit(world, "first"), submit(world, "second")
    assert pulls(world, google) == 4
    assert [pulls(world, google, seconds=60.0 * minute) for minute in range(1, 90)] == [0] * 89
    second.cancel()
    assert drop(google, seconds=5400) == 2
    assert left(world) == [(first.id, 0), (first.id, 1)]


def test_what_is_submitted_later_is_looked_at_at_most_every_15_minutes(world, google):
    submit(world, "first")
    drop(google)
    second = submit(world, "second")
    second.cancel()
    assert drop(google, seconds=ended_jobs.LOOK_SECONDS - 60) == 0
    assert drop(google, seconds=ended_jobs.LOOK_SECONDS) == 2


def test_a_round_after_the_cancel_stays(world, google):
    job = submit(world, "job")
    job.cancel()
    job.resume()
    assert len(left(world)) == 4
    assert drop(google) == 2
    rounds = [message.attributes["round"] for message in world.google.messages[world.subscription]]
    assert rounds == ["1", "1"]


def test_a_chunk_that_is_done_and_a_job_that_has_expired_are_dropped(world, google):
    done, expired = submit(world, "done"), submit(world, "expired")
    again = list(world.google.messages[world.subscription])[:1]
    world.work(done.id)
    world.google.messages[world.subscription] += again
    store = Path(world.pipeline.store.uri.removeprefix("file://"))
    for path in (store / layout.rounds(expired.id)).iterdir():
        path.unlink()
    assert drop(google) == 3
    assert left(world) == []


@pytest.mark.parametrize("over", ["", layout.told_sent("J", 0), layout.told_claim("J", 0, 2)])
def test_the_last_chunk_of_a_job_stays_until_its_end_is_told(world, google, over):
    """Its worker died between its record and the message: the next one that gets the chunk tells."""
    newer = world.pipeline.descriptor.model_copy(update={"max_spec": 5})
    world.pipeline = Pipeline(newer, world.pipeline.store, world.pipeline.site.backend("cpu"))
    job = submit(world, "job", notify="https://hooks.example.com/x")
    again = list(world.google.messages[world.subscription])[1:]
    world.work(job.id)
    world.google.messages[world.subscription] += again
    if over:
        world.pipeline.store.put(over.replace("J", job.id), b"")
    assert drop(google) == (1 if over else 0)
    assert left(world) == ([] if over else [(job.id, 1)])


@pytest.mark.parametrize("name", ["cancelled", "r0/done/0/x.jsonl", "rounds/x.json"])
def test_what_a_program_writes_into_its_job_keeps_no_other_messages(world, google, name):
    """A damaged job is a worker's to end."""
    damaged, other = submit(world, "damaged"), submit(world, "other")
    world.pipeline.store.put(f"{layout.JOBS}/{damaged.id}/{name}", b"[" * 200_000)
    other.cancel()
    assert drop(google) == 2
    assert left(world) == [(damaged.id, 0), (damaged.id, 1)]


def test_messages_that_are_not_ours_are_left_to_workers(world, google):
    job = submit(world, "job", items=2)
    rubbish = world.google.messages[world.subscription][0]
    for labels in ({}, {"job": job.id}, {"job": job.id, "round": "x"}):
        world.google.messages[world.subscription].append(type(rubbish)(labels))
    assert drop(google) == 0
    assert len(world.google.messages[world.subscription]) == 4


@pytest.mark.parametrize(("others", "age"), [((BROKEN,), 0), ((), 600)])
def test_a_queue_with_a_worker_is_left_to_it(world, google, others, age):
    submit(world, "job").cancel()
    assert drop(google, (*others, Machine("b", "RUNNING", alive_at=time.time() - age))) == 0
    assert not world.pipeline.store.exists(f"{layout.FLEET_UNSERVED}/cpu")


def test_a_queue_without_machines_and_one_whose_worker_is_frozen_have_none(world, google):
    for number, machines in enumerate([(), (Machine("b", "RUNNING", alive_at=time.time() - 3600),)]):
        submit(world, f"job{number}").cancel()
        assert drop(google, machines, seconds=number * ended_jobs.LOOK_SECONDS) == 2


def test_work_that_has_waited_for_a_short_time_is_not_looked_at(world, google):
    submit(world, "job").cancel()
    cloud = Cloud("vision-dev-1", "r", "store", google, pause=lambda _: None)
    for values in ([2, 2, 2], [2, 2, 2, 0, 0], []):
        samples = [Sample(time.time() - 60 * minute, value) for minute, value in enumerate(values)]
        assert ended_jobs.drop(cloud, QueueState("cpu", [Group("spot", ())], samples), "cpu") == 0
    assert ended_jobs.drop(cloud, QueueState("cpu", [Group("spot", ())], None), "cpu") == 0


def test_a_run_that_dies_half_way_leaves_the_rest_to_the_next(world, google):
    submit(world, "job", items=8).cancel()
    google.dies_before = f"https://pubsub.googleapis.com/v1/{world.subscription}:acknowledge"
    with pytest.raises(KeyboardInterrupt):
        drop(google)
    google.dies_before = ""
    for message in world.google.messages[world.subscription]:
        message.ack_id = ""  # as when their lease has run out
    assert drop(google) == 4


def test_a_damaged_job_stays_and_keeps_no_other_from_being_dropped(world, google):
    damaged = submit(world, "damaged")
    submit(world, "other").cancel()
    world.pipeline.store.put(layout.cancelled(damaged.id), b"{")
    assert drop(google) == 2
    assert left(world) == [(damaged.id, 0), (damaged.id, 1)]


def test_a_run_that_fails_delivers_nothing_again_in_the_next(world, google):
    submit(world, "job")
    google.dies_before = f"https://pubsub.googleapis.com/v1/{world.subscription}:modifyAckDeadline"
    with pytest.raises(KeyboardInterrupt):
        drop(google)
    google.dies_before = ""
    for message in world.google.messages[world.subscription]:
        message.ack_id = ""  # as when their lease has run out
    assert pulls(world, google, seconds=60) == 0


@pytest.mark.parametrize("note", ["", "[]", '{"at": 1}', '{"at": 9e99, "rounds": [], "left": 9}', '{"rounds": [1]}'])
def test_a_damaged_note_counts_as_missing(world, google, note):
    submit(world, "job").cancel()
    world.pipeline.store.put(f"{layout.FLEET_UNSERVED}/cpu", note.encode())
    assert drop(google) == 2


def test_the_note_names_what_waits(world, google):
    job = submit(world, "job")
    drop(google)
    note = json.loads(world.pipeline.store.get(f"{layout.FLEET_UNSERVED}/cpu"))
    assert (note["rounds"], note["left"]) == ([[job.id, 0]], 2)
