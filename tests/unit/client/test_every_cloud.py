"""The SDK and the command line asked the same things on every cloud. Where clouds differ, docs/clouds.md has a row.

What this cannot prove: how a cloud acts (see tests/unit/every_cloud.py).
"""

import functools
import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.unit.client_fakes import uris
from tests.unit.every_cloud import DyingError, GcpWorld, in_arrays_of, run_chunk, worlds
from tidemill.cli import main
from tidemill.client import site as site_module
from tidemill.client.rounds import deliveries
from tidemill.clouds.local.desk import Desk
from tidemill.errors import CallerError
from tidemill.ledger import Ledger

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "documents.schema.json"
COMMAND = ["python3", "/app/features.py", "{uri}"]
WORLDS = worlds()
EVERYWHERE = pytest.mark.parametrize("cloud", WORLDS)
ON_CLOUDS = pytest.mark.parametrize("cloud", [cloud for cloud in WORLDS if cloud != "local"])


@pytest.fixture
def world(cloud, tmp_path, monkeypatch):
    made = WORLDS[cloud](tmp_path, monkeypatch)
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    monkeypatch.setattr(site_module, "open_backend", lambda *_: made.pipeline.site.backend("cpu"))
    monkeypatch.setenv("TIDEMILL_PIPELINE", made.pipeline.descriptor.uri)
    monkeypatch.chdir(tmp_path)
    return made


def submit(world, items=10, chunk_size=3, **more):
    values: dict[str, Any] = {"queue": world.queue, "name": "tiles", "chunk_size": chunk_size} | more
    return world.pipeline.submit(COMMAND, uris(items), **values)


# ---- the SDK -------------------------------------------------------------------------------------------------------


@EVERYWHERE
def test_a_job_from_its_submit_to_its_results(world, cloud):
    job = submit(world)
    status = job.status()
    # Where nothing stands between runs, what no run works on waits for one.
    assert status.state == ("paused" if cloud == "local" else "waiting")
    assert (status.items, status.remaining, status.chunks.done) == (10, 10, 0)
    assert ("the first machine takes 1 to 4 minutes" in (status.note or "")) == (cloud == "gcp")
    world.work(job.id, fail=[4])
    status = job.status()
    assert (status.state, status.succeeded, status.failed, status.remaining) == ("failed", 9, 1, 0)
    assert (status.chunks.done, status.chunks.lost, status.chunks.dead, status.exit_code) == (4, [], [], 1)
    assert [one.uri for one in job.results()] == uris(10)
    assert [one.index for one in job.results(failed_only=True)] == [4]
    assert (job.summary().succeeded, job.progress().failed) == (9, 1)
    assert job.wait() == job.status(consumption=False)
    assert world.delivered(job.id) == dict.fromkeys([(0, chunk) for chunk in range(4)], 1)


@EVERYWHERE
def test_the_same_submit_is_the_same_job(world):
    job = submit(world)
    again = submit(world)
    assert (again.id, again.enqueued) == (job.id, 0)
    assert set(world.delivered(job.id).values()) == {1}
    world.work(job.id)
    assert submit(world).enqueued == 0
    assert set(world.delivered(job.id).values()) == {1}
    assert [row.state for row in world.pipeline.jobs()] == ["succeeded"]


@ON_CLOUDS
@pytest.mark.parametrize("arrays", range(4))
def test_a_submit_that_dies_between_two_arrays_is_finished_by_the_next(world, arrays):
    in_arrays_of(world, 2)
    world.die_after(arrays)
    with pytest.raises(DyingError):
        submit(world, items=8, chunk_size=1)
    world.die_after(None)
    job = submit(world, items=8, chunk_size=1)
    assert job.enqueued == 4 - arrays
    assert world.delivered(job.id) == dict.fromkeys([(0, chunk) for chunk in range(8)], 1)
    world.work(job.id)
    assert job.status().state == "succeeded"


@EVERYWHERE
def test_retry_runs_what_failed_or_was_named(world):
    job = submit(world)
    world.work(job.id, fail=[1, 4, 9])
    sent = job.retry()
    assert (sent.round, sent.chunks, sent.items) == (1, 3, 3)
    assert job.status().remaining == 0
    world.work(job.id, fail=[4])
    status = job.status()
    assert (status.state, status.succeeded, status.failed) == ("failed", 9, 1)
    assert job.retry([0, 4]).items == 2
    world.work(job.id)
    assert (job.status().failed, job.status().rounds) == (0, 3)
    assert job.retry().round is None
    with pytest.raises(CallerError, match="items is 10"):
        job.retry([10])


@EVERYWHERE
def test_queued_and_running_work_is_not_lost(world, cloud):
    """Neither to `resume` nor to `retry`. Work of a local store stays queued until a run takes it."""
    job = submit(world)
    assert job.resume().round is None
    world.work(job.id, fail=[0])
    assert job.retry().round == 1
    assert (job.resume().round, job.retry().round) == (None, None)
    with pytest.raises(CallerError) as refused:
        job.retry([0])
    assert refused.value.what == "items"
    if cloud == "local":
        lock = Desk(world.pipeline.store.uri, job.id).lock(0)
        assert lock
        with lock:
            assert (job.resume().round, job.status().state) == (None, "running")
    assert set(world.delivered(job.id).values()) == {1}


@ON_CLOUDS
def test_what_is_lost_is_named_and_resumed(world, cloud):
    job = submit(world)
    world.work(job.id, lose=[1, 3])
    status = job.status()
    assert (status.state, status.chunks.lost, status.exit_code) == ("lost", [1, 3], 1)
    assert status.chunks.dead == ([1, 3] if cloud == "gcp" else [])
    assert status.note
    sent = job.resume()
    assert (sent.round, sent.chunks) == (1, 2)
    assert (job.status().state, job.status().chunks.lost) == ("waiting", [])
    assert job.resume().round is None
    world.work(job.id)
    assert (job.status().state, job.status().succeeded) == ("succeeded", 10)


@ON_CLOUDS
def test_wait_repairs_what_is_lost(world):
    job = submit(world)
    world.work(job.id, lose=[0, 2])
    said = []

    def look(status):
        if not status.chunks.lost:
            world.work(job.id)

    last = job.wait(poll_seconds=0.01, on_status=look, log=said.append)
    assert (last.state, last.succeeded, last.rounds) == ("succeeded", 10, 2)
    assert said[0].startswith("2 lost deliveries")
    in_arrays_of(world, 1)
    other = submit(world, name="other")
    world.work(other.id, lose=[2])
    assert other.wait(poll_seconds=0.01, repair=False).state == "lost"


@ON_CLOUDS
def test_wait_gives_up_when_repairs_bring_nothing(world):
    job = submit(world, items=2, chunk_size=1)
    last = job.wait(poll_seconds=0.01, on_status=lambda status: world.work(job.id, lose=[0, 1]))
    assert (last.state, last.remaining) == ("lost", 2)


@EVERYWHERE
def test_a_cancelled_job_ends_and_can_be_resumed(world, cloud):
    job = submit(world)
    job.cancel("the wrong list")
    assert job.cancelled
    status = job.status()
    assert (status.state, status.remaining, status.chunks.lost) == ("cancelled", 10, [])
    assert status.note is not None
    assert status.note.endswith(": the wrong list")
    world.work(job.id)
    assert job.progress().chunks_done == 0
    with pytest.raises(CallerError, match="is cancelled"):
        submit(world)
    assert job.resume().chunks == 4
    world.work(job.id)
    assert (job.status().state, job.status().succeeded) == ("succeeded", 10)
    assert job.cancel() == 0


@EVERYWHERE
def test_lines_by_item_text_and_time(world):
    job = submit(world)
    at = datetime.now(UTC).timestamp()
    labels = {"job": job.id, "chunk": 1, "lease": "a", "attempt": 1, "stream": "stderr"}
    world.say(at + 1, **labels, item=3, message="opening 3")
    world.say(at + 2, **labels, item=4, message="no such band")
    world.say(at + 3, **labels, item=3, message="No such band")
    world.say(at + 4, job=job.id, chunk=1, level="info", message="chunk committed")
    assert [line.said for line in job.logs(item=3)] == ["opening 3", "No such band"]
    assert [line.said for line in job.logs()] == ["opening 3", "no such band", "No such band"]
    assert [line.said for line in job.logs(worker=True)][-1] == "chunk committed"
    assert [line.said for line in job.logs(text="no such")] == ["no such band"]
    since = datetime.fromtimestamp(at + 2.5, UTC)
    assert [line.said for line in job.logs(since=since)] == ["No such band"]
    assert [line.said for line in job.logs(until=since)] == ["opening 3", "no such band"]
    assert [line.fields["item"] for line in job.logs()] == [3, 4, 3]
    with pytest.raises(CallerError, match="item is 10"):
        list(job.logs(item=10))


@EVERYWHERE
def test_a_job_runs_where_it_is_told_and_fits(world, cloud):
    whole = cloud == "aws"
    if whole:
        with pytest.raises(CallerError, match="a whole number on AWS Batch"):
            submit(world, cpus=0.5)
    else:
        assert submit(world, cpus=0.5).spec.resources.cpus == 0.5
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"queue": "cpx"}, "There is no queue 'cpx'"),
        ({"image": "legacy"}, "There is no image 'legacy'"),
        ({"memory_mib": 10**9}, "no machine of queue"),
        ({"cpus": 4096}, "no machine of queue"),
        ({"gpus": 1}, "has no machine with a GPU"),
        ({"slots": 0}, "slots is 0"),
    ]
    for wrong, words in wrongs:
        with pytest.raises(CallerError, match=words):
            submit(world, **wrong)


@EVERYWHERE
def test_queues_say_their_state(world, cloud):
    queues = world.pipeline.queues()
    assert [queue.name for queue in queues] == sorted(world.pipeline.descriptor.queues)
    assert all(queue.state.accepting and queue.state.running for queue in queues)
    plain = {
        "name",
        "accepting",
        "running",
        "state",
        "item",
        "images",
        "architecture",
        "machines",
        "capacity",
        "scratch",
    }
    assert {frozenset(queue.to_json()) for queue in queues} == {frozenset(plain | {"scratch_gib"})}


@EVERYWHERE
def test_most_chunks_of_a_job_and_arrays_as_long_as_the_cloud_takes(world, cloud):
    job = submit(world, items=2500, chunk_size=1)
    sizes = [array.size for array in Ledger(world.pipeline.store, job.id).round(0).arrays]
    assert sizes == ([834, 833, 833] if cloud == "gcp" else [2500])
    assert len(world.delivered(job.id)) == 2500


# ---- the command line ----------------------------------------------------------------------------------------------


def shown(capsys, *arguments, code=0):
    """A command's JSON, checked against its schema."""
    assert main([*arguments, "--json"]) == code
    lines = capsys.readouterr().out.splitlines()
    for line in lines:
        schema(arguments[0]).validate(json.loads(line))
    return [json.loads(line) for line in lines]


@functools.cache
def schema(verb: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads(SCHEMAS.read_text()) | {"$ref": f"#/$defs/{verb}"})


@EVERYWHERE
def test_every_verb(world, capsys, cloud):
    job = submit(world).id
    assert shown(capsys, "status", "tiles", code=1 if cloud == "local" else 0)[0]["remaining"] == 10
    world.work(job, fail=[4])
    assert shown(capsys, "wait", "tiles", code=1)[0]["summary"]["failed"] == 1
    assert [row["job"] for row in shown(capsys, "jobs")[0]["jobs"]] == [job]
    assert [row["index"] for row in shown(capsys, "results", job)] == list(range(10))
    assert shown(capsys, "failures", job)[0]["groups"][0]["items"] == [4]
    world.say(datetime.now(UTC).timestamp(), job=job, chunk=1, item=4, attempt=1, stream="stderr", message="no")
    assert shown(capsys, "logs", job, "--item", "4")[0]["message"] == "no"
    assert shown(capsys, "retry", job, "--failed")[0]["items"] == 1
    world.work(job)
    assert shown(capsys, "status", job)[0]["state"] == "succeeded"
    assert shown(capsys, "resume", job)[0]["round"] is None
    assert shown(capsys, "retry", job, "--dead")[0]["note"] == "it has no dead letters"
    assert shown(capsys, "cancel", job)[0]["cancelled"] is False
    assert [queue["name"] for queue in shown(capsys, "queues")[0]["queues"]] == sorted(world.pipeline.descriptor.queues)


@EVERYWHERE
def test_every_look(world, capsys, cloud):
    """Of a job that waits, and of one that has ended."""
    job = submit(world).id
    waits = {"local": ("act", 1), "toy": ("act", 1)}.get(cloud, ("well", 0))
    answer = shown(capsys, "explain", job, code=waits[1])[0]
    assert (answer["job"], answer["kind"]) == (job, waits[0])
    assert [row["job"] for row in shown(capsys, "top", job)[0]["jobs"]] == [job]
    findings = shown(capsys, "doctor", code=3 if cloud == "gcp" else 0)[0]["checks"]
    assert {each["check"] for each in findings} >= {"login", "store", f"queue {world.queue}"}
    world.work(job, fail=[4])
    assert shown(capsys, "explain", job)[0]["kind"] == "well"
    report = shown(capsys, "report", job)[0]
    assert (report["job"], report["failed"]) == (job, 1)


# ---- dead letters: GCP alone has them ------------------------------------------------------------------------------


@pytest.fixture
def cloud(request):
    """Of tests that are not parametrised."""
    return "gcp"


def test_dead_letters_go_back_with_retry_dead(world, capsys):
    job = submit(world)
    world.work(job.id, lose=[1, 3])
    assert main(["status", job.id]) == 1
    out = capsys.readouterr().out
    assert f"2 (chunks 1, 3): `tidemill retry {job.id} --dead` puts them back" in out
    assert "tidemill resume" not in out
    sent = shown(capsys, "retry", job.id, "--dead")[0]
    assert (sent["round"], sent["chunks"], sent["items"], sent["note"]) == (1, 2, 4, None)
    # Published again, then dropped.
    assert world.google.messages[f"{world.subscription}-dead"] == []
    assert shown(capsys, "status", job.id)[0]["state"] == "waiting"
    world.work(job.id)
    assert job.status().succeeded == 10
    assert world.delivered(job.id) == dict.fromkeys([(0, c) for c in range(4)] + [(1, 1), (1, 3)], 1)


def test_a_retry_of_dead_letters_that_dies_half_way_is_finished_by_the_next(world):
    job = submit(world)
    world.work(job.id, lose=[1, 3])
    world.google.refuse = lambda api, path: (400, {}) if path.endswith(":acknowledge") else None
    with pytest.raises(Exception, match="was refused: 400"):
        job.retry_dead()
    world.google.refuse = lambda api, path: None
    # They were enqueued: the letters are stale and only dropped.
    assert job.status().chunks.dead == []
    sent = job.retry_dead()
    assert (sent.round, sent.note) == (None, "2 dead letters that are no longer needed were thrown away")
    assert world.delivered(job.id)[1, 1] == 1
    world.work(job.id)
    assert job.status().state == "succeeded"


def test_dead_letters_of_a_cancelled_job_stay(world):
    job = submit(world)
    world.work(job.id, lose=[1, 3])
    job.cancel()
    assert job.retry_dead().note == "it is cancelled"
    assert len(world.google.messages[f"{world.subscription}-dead"]) == 2
    assert job.resume().chunks == 2
    assert world.google.messages[f"{world.subscription}-dead"] == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_submit_that_dies_at_any_step_is_finished_and_repeats_one_request_at_most(
    cloud, tmp_path, monkeypatch, after
):
    """A step is a write to the store or a publish request; the submitter dies just before or just after it."""
    monkeypatch.setattr("tidemill.services.pubsub.backend.IN_FLIGHT", 1)
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    twice = set()
    steps = None
    for step in itertools.count(1):
        world = GcpWorld(tmp_path / str(step), monkeypatch)
        in_arrays_of(world, 2)
        steps = Steps(world, step, after)
        try:
            submit(world, items=5, chunk_size=1)
            break
        except DyingError:
            steps.dead = True
        job = submit(world, items=5, chunk_size=1)
        delivered = world.delivered(job.id)
        assert set(delivered) == {(0, chunk) for chunk in range(5)}, steps.seen
        repeated = {chunk for (_, chunk), count in delivered.items() if count > 1}
        assert repeated in (set(), {0, 1}, {2, 3}, {4}), steps.seen
        # Only an answered request without a record is repeated.
        assert bool(repeated) == (after == (steps.seen[-1] == "publish") and "publish" in steps.seen[-2:]), steps.seen
        twice |= repeated
        world.work(job.id)
        assert (job.status().state, job.status().succeeded) == ("succeeded", 5)
    assert steps
    assert steps.seen.count("publish") == 3
    assert twice == set(range(5))


def test_what_was_published_without_a_record_is_published_again_although_some_of_it_is_done(world, tmp_path):
    """Otherwise nobody would learn of the rest, and after a while it would count as lost."""
    job = submit(world, chunk_size=1)
    run_chunk(world.pipeline, job.id, 0, 3, ())
    for record in (tmp_path / "store" / "jobs" / job.id / "published").iterdir():
        record.unlink()
    assert submit(world, chunk_size=1).enqueued == 1
    assert set(world.delivered(job.id).values()) == {2}
    world.work(job.id)
    assert (job.status().state, job.status().succeeded) == ("succeeded", 10)


class Steps:
    """Counts writes and publish requests of a world, and has the submitter die at one of them."""

    def __init__(self, world, at, after):
        self.seen, self.dead, self._at, self._after = [], False, at, after
        store, google = world.pipeline.store, world.google
        for name in ("put", "create"):
            setattr(store, name, self._step(getattr(store, name), lambda name, data: name.split("/")[2:3]))
        google.send = self._step(google.send, lambda request, **_: ["publish"] if "publish" in request.url else [])

    def _step(self, call, words):
        def step(*arguments, **named):
            said = words(*arguments, **named)
            if self.dead or not said:
                return call(*arguments, **named)
            self.seen += said
            dies = len(self.seen) == self._at
            if dies and not self._after:
                raise DyingError
            answer = call(*arguments, **named)
            if dies:
                raise DyingError
            return answer

        return step


def test_chunks_that_a_worker_holds_run_and_the_others_wait(world):
    job = submit(world)
    ledger = Ledger(world.pipeline.store, job.id)
    ledger.chunk(0, 2).marker("a", 1, {}).write([6])
    status = job.status()
    assert (status.state, status.chunks.running, status.chunks.waiting) == ("running", 1, 3)
    assert (status.chunks.total, status.chunks.done) == (4, 0)
    world.google.now += 400
    world.pipeline.queues()  # any answer tells the time
    assert (job.status().state, job.status().chunks.running) == ("waiting", 0)


def test_a_chunk_that_vanished_is_found_by_the_empty_backlog_and_enqueued_again(world):
    """It was acknowledged without a record, or dropped, without a trace. A job always ends."""
    job = submit(world)
    world.google.messages[world.subscription] = [
        message for message in world.google.messages[world.subscription] if message.attributes["chunk"] != "2"
    ]
    world.work(job.id)
    assert (job.status().state, job.status().chunks.lost) == ("waiting", [])
    now = world.google.now
    world.google.points["cpu"] = [(now + minute * 60, 0) for minute in range(2, 8)]
    world.google.now = now + 600
    status = job.status()
    assert (status.state, status.chunks.lost) == ("lost", [2])
    assert status.note == "it is not done, and the queue no longer holds it"
    world.google.points.clear()  # the samples are of before it is published again

    def look(status):
        if not status.chunks.lost:
            world.work(job.id)

    sent = job.resume()
    assert (sent.round, sent.chunks) == (None, 0)
    world.google.points["cpu"] = [(now + minute * 60, 0) for minute in range(2, 8)]
    assert job.resume().chunks == 1
    world.google.points.clear()
    last = job.wait(poll_seconds=0.01, on_status=look)
    assert (last.state, last.succeeded, last.rounds) == ("succeeded", 10, 2)
