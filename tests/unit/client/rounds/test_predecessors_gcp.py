"""Jobs after jobs on GCP: what a submit leaves, what the reconciler publishes, and what a client publishes.

The reconciler's real code runs over the job store of the client's real code, behind the requests that it sends. How
Google answers is written down here and in localcloud, not proved.
"""

from __future__ import annotations

import gzip
import io
import json
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import requests
from urllib3 import HTTPResponse

from components.services.pubsub.reconciler_function import ended_jobs, predecessors
from components.services.pubsub.reconciler_function.chains import CLIENT_SECONDS, release
from components.services.pubsub.reconciler_function.cloud import CallError, Cloud
from components.services.pubsub.reconciler_function.objects import MOST_BYTES, Objects
from components.services.pubsub.reconciler_function.predecessors import MOST_CHUNKS, Others
from tests.mutants import reconciler
from tests.unit.every_cloud import DyingError, GcpWorld
from tests.unit.google_fakes import Message
from tidemill import layout
from tidemill.client import Job, Pipeline
from tidemill.client.rounds import deliveries
from tidemill.completion import HEADER, MAGIC, ROW, damaged
from tidemill.ending import gate
from tidemill.fleet import HeldJob
from tidemill.job import MAX_CHUNKS
from tidemill.ledger import Ledger
from tidemill.ledger.gate import begun_at, look
from tidemill.store import Store

OBJECTS = "https://storage.googleapis.com/storage/v1/b/store/o"
UPLOAD = "https://storage.googleapis.com/upload/storage/v1/b/store/o"
PUBSUB = "https://pubsub.googleapis.com/v1/"
TOPIC = "projects/vision-dev-1/topics/cpu"


class Answer:
    def __init__(self, code: int, content: bytes) -> None:
        self.status_code, self.content, self.text = code, content, content.decode(errors="replace")
        self.headers = {"Date": formatdate(time.time(), usegmt=True)}

    def iter_content(self, size: int) -> Iterator[bytes]:
        return (self.content[at : at + size] for at in range(0, len(self.content), size))

    def close(self) -> None:
        pass

    def json(self) -> Any:
        return json.load(io.BytesIO(self.content))


class Google:
    """Cloud Storage and Pub/Sub as the reconciler calls them, over a store and a world's messages."""

    def __init__(self, world: GcpWorld) -> None:
        self.world, self.store = world, world.pipeline.store
        self.dies_before = ""
        self.meanwhile: tuple[int, Callable[[], object]] = (0, lambda: None)
        """So many requests from now somebody else does this."""
        self.published: list[tuple[int, int]] = []
        self.asked: list[str] = []

    def request(self, method: str, url: str, **more: Any) -> Answer:
        more.pop("timeout")
        left, act = self.meanwhile
        self.meanwhile = left - 1, act
        if left == 1:
            act()
        self.asked.append(more.get("params", {}).get("prefix") or unquote(url.removeprefix(OBJECTS + "/")))
        if self.dies_before and self.dies_before in (method, url, more.get("params", {}).get("name", "")):
            raise KeyboardInterrupt
        if url.startswith(PUBSUB):
            return self._publish(url, **more)
        if url == UPLOAD:
            return self._create(**more)
        if url == OBJECTS:
            prefix = more["params"]["prefix"]
            found = sorted(self.store.list(prefix.rpartition("/")[0]))
            names = [{"name": name, "generation": self._generation(name)} for name in found if name.startswith(prefix)]
            return Answer(200, json.dumps({"items": names}).encode())
        name = unquote(url.removeprefix(OBJECTS + "/"))
        data = self.store.find(name)
        if data is None:
            # The function may not list the bucket.
            return Answer(403, b"denied")
        return self._delete(name, **more.get("params", {})) if method == "DELETE" else Answer(200, data)

    def _delete(self, name: str, ifGenerationMatch: str = "") -> Answer:  # noqa: N803
        if ifGenerationMatch not in ("", self._generation(name)):
            return Answer(412, b"another generation")
        self._path(name).unlink()
        return Answer(204, b"")

    def _path(self, name: str) -> Path:
        return Path(self.store.uri.removeprefix("file://"), name)

    def _generation(self, name: str) -> str:
        """Every write to a store of files makes another file."""
        found = self._path(name).stat()
        return f"{found.st_ino}.{found.st_mtime_ns}"

    def _create(self, params: dict[str, str], data: bytes, headers: dict[str, str] | None = None) -> Answer:
        if "ifGenerationMatch" not in params:
            self.store.put(params["name"], data)
            return Answer(200, b"{}")
        assert params["ifGenerationMatch"] == "0"
        return Answer(200 if self.store.create(params["name"], data).ours else 412, b"{}")

    def _publish(self, url: str, json: dict[str, Any]) -> Answer:
        if "/subscriptions/" in url:
            return self._consume(url.removeprefix(PUBSUB), json)
        assert url == f"{PUBSUB}{TOPIC}:publish"
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
    made.pipeline = Pipeline(newer, made.pipeline.store, made.pipeline.site.backend("cpu"))
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
    done, failures = release(cloud, [TOPIC])
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
    assert second.status().state == "succeeded"


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
    assert second.status().state == "succeeded"


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


def test_a_round_that_is_left_while_the_reconciler_looks_at_an_older_one_is_published(world, google):
    """Somebody cancels and resumes a job between any two requests of a run, and then leaves."""
    submit(world, "done")
    step = 0
    while True:
        step += 1
        second = submit(world, f"n{step}", after=["done"])
        google.meanwhile = step, lambda job=second: (job.cancel(), job.resume())
        reconcile(google)
        if google.meanwhile[0] > 0:
            break
        assert [second.id] == [HeldJob.parse(world.pipeline.store.get(name)).job for name in held(world)], step
        second.cancel()
        reconcile(google)
        assert not held(world)
    assert step > 10


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
    done, failures = release(Cloud("p", "r", "store", google, pause=lambda _: None), [TOPIC])
    assert done == [f"{second.id}: published 2 chunks of round 0"]
    assert len(failures) == 1
    assert "a-00000000" in failures[0]


HELD = HeldJob("evil-00000000", 0, "a" * 64, "b" * 64, TOPIC, {}, {"0": [0]})


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("evil-00000000", b"[" * 200_000, "RecursionError"),
        ("evil-00000000", b"x" * (MOST_BYTES + 1), f"more than {MOST_BYTES} bytes"),
        ("evil-00000000", replace(HELD, topic="projects/vision-dev-1/topics/oncall"), "which is not of this stack"),
        ("other-00000000", HELD, "names the job 'evil-00000000'"),
        ("evil-00000000", replace(HELD, after=[]), "AttributeError"),
        ("evil-00000000", replace(HELD, arrays={"x": [0]}), "ValueError"),
    ],
)  # fmt: skip
def test_what_nobody_submitted_is_a_failure_and_is_not_published(world, google, name, content, words):
    first, store = submit(world, "first"), world.pipeline.store
    second = submit(world, "zeta", after=["first"])
    store.put(layout.spec(HELD.job), b'{"queue": "cpu"}')
    store.put(layout.round_(HELD.job, 0), b'{"arrays": [{"first": 0, "count": 1}]}')
    store.put(layout.held(name), content if isinstance(content, bytes) else json.dumps(asdict(content)).encode())
    world.work(first.id)
    done: list[str] = []
    for _ in range(2):
        done, failures = release(Cloud("p", "r", "store", google, pause=lambda _: None), [TOPIC])
        [failure] = failures
        assert failure.startswith(f"{layout.held(name)}: ")
        assert words in failure
    assert done == []
    assert sorted(google.published) == [(0, 0), (0, 1)]
    assert not held(world)[1:]
    world.work(second.id)
    assert second.status().state == "succeeded"


def lists(rows: int, items: int) -> bytes:
    """Rows that all name the same items."""
    at = HEADER.size + rows * ROW.size
    return HEADER.pack(MAGIC, rows) + b"".join(ROW.pack(row, 0, items, at) for row in range(rows)) + b"\0" * 8 * items


@pytest.mark.parametrize(
    ("what", "content"),
    [
        ("spec", b"[" * 200_000),
        ("spec", b'{"chunks_total": 1000000000000, "items_total": 1}'),
        ("spec", b'{"chunks_total": 2, "items_total": "\\u001b[2J"}'),
        ("spec", b" " * (MOST_BYTES + 1)),
        ("round", b'{"arrays": [{"first": 0, "count": 1000000000000}]}'),
        ("round", b'{"arrays": [], "chosen": "c"}'),
        ("round", b"null"),
        ("done", b""),
        ("rounds", b""),
    ],
)
def test_a_job_whose_objects_a_program_has_damaged_ends_those_after_it_and_no_others(world, google, what, content):
    """Programs on machines may write anything below `jobs/`."""
    first, other = submit(world, "first"), submit(world, "other")
    second, third = submit(world, "second", after=["first"]), submit(world, "third", after=["other"])
    world.work(first.id)
    world.work(other.id)
    store, names = world.pipeline.store, {"spec": layout.spec(first.id), "round": layout.round_(first.id, 0)}
    if what == "done":
        store.put(f"{layout.of_round(first.id, 0, 'done')}/0/x.jsonl", b"")
    elif what == "rounds":
        store.put(f"{layout.rounds(first.id)}/x.json", b"")
    else:
        store.put(names[what], content)
    store.put(layout.chosen(first.id, 0, "c"), lists(1000, 1000))
    assert set(reconcile(google)) == {
        f"{second.id} can never begin: what the store has of {first.id} is damaged",
        f"{third.id}: published 2 chunks of round 0",
    }
    assert not held(world)
    assert store.exists(layout.cancelled(second.id))


class Compressed:
    """A session whose every answer has this body, compressed, and says that it has this length."""

    def __init__(self, body: bytes, length: int) -> None:
        self._body, self._length = body, length

    def request(self, method: str, url: str, **more: Any) -> requests.Response:
        assert more["stream"]
        found = requests.Response()
        found.status_code = 200
        headers = {"Content-Encoding": "gzip", "Content-Length": str(self._length)}
        found.raw = HTTPResponse(io.BytesIO(self._body), headers, preload_content=False, enforce_content_length=True)
        return found


def storage(body: bytes, length: int) -> Objects:
    return Objects(Cloud("p", "r", "store", Compressed(body, length), pause=lambda _: None))


ROOM = 2**18


class Rounds(Objects):
    """The rounds of a job, each with this content, and with these lists."""

    def __init__(self, count: int, content: bytes, lists: bytes = b"") -> None:
        self._count, self._content, self._lists = count, content, lists

    def names(self, folder: str, most: int = 0) -> Iterator[str]:
        return iter([f"{folder}/{number}.json" for number in range(self._count)] if folder.endswith("rounds") else [])

    def has(self, name: str) -> bool:
        return name.endswith("job.json")

    def get(self, name: str) -> bytes:
        if name.endswith("job.json"):
            return b'{"chunks_total": 1, "items_total": 1}'
        return self._lists if "/chosen/" in name else self._content


@pytest.mark.parametrize(
    "rounds",
    [
        Rounds(1000, b'{"arrays": [], "x": [' + b"[]," * (ROOM // 9) + b"0]}"),
        Rounds(1000, b'{"chosen": "0a"}', HEADER.pack(MAGIC, ROOM // 99) + bytes(ROOM)),
    ],
)
def test_the_rounds_of_a_job_cannot_fill_the_memory_together(rounds: Rounds, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(predecessors, "MOST_BYTES", ROOM)
    monkeypatch.setattr(predecessors, "MOST_LISTS", 3 * ROOM)
    tracemalloc.start()
    assert Others(rounds).missing("a", True) == damaged("a")
    assert tracemalloc.get_traced_memory()[1] < 30 * ROOM
    tracemalloc.stop()


def test_many_small_rounds_are_read():
    assert Others(Rounds(500, b'{"arrays": [{"first": 0, "count": 1}]}')).missing("a", True) is True


def test_an_object_that_unpacks_to_more_than_the_bound_is_not_held():
    bomb = gzip.compress(b"first\n" + b" " * 8 * MOST_BYTES)
    assert len(bomb) < MOST_BYTES / 20
    objects = storage(bomb, len(bomb))
    assert objects.first_line("x") == b"first"
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"x has more than {MOST_BYTES} bytes"):
        objects.get("x")
    assert tracemalloc.get_traced_memory()[1] < 4 * MOST_BYTES
    tracemalloc.stop()
    small = gzip.compress(b"{}")
    assert storage(small, len(small)).get("x") == b"{}"
    with pytest.raises(CallError):
        storage(small, len(small) + 9).get("x")


def test_each_other_job_is_looked_at_once_in_a_run(world, google):
    first = submit(world, "first", items=40)
    for number in range(12):
        submit(world, f"w{number}", after=["first"])
    reconcile(google)
    asked = [name for name in google.asked if name.startswith(f"jobs/{first.id}/")]
    # Its last chunk is not done: no page of the others' names is needed.
    spec, last = layout.spec(first.id), layout.done(first.id, 0, 19)
    assert asked == [
        spec,
        spec,
        f"{layout.rounds(first.id)}/",
        layout.round_(first.id, 0),
        last,
        layout.cancelled(first.id),
    ]


@pytest.mark.parametrize("mutant", [None, reconciler.same_turn])
def test_every_job_has_its_turn_when_runs_are_short(world, google, mutant):
    """Six jobs wait for others, each of which lacks an early chunk: a run has time for about three of them."""
    slow = [submit(world, f"slow{number}", items=40) for number in range(6)]
    jobs = [submit(world, f"after{number}", after=[other.id]) for number, other in enumerate(slow)]
    done, last = submit(world, "done"), submit(world, "zeta", after=["done"])
    for job in (*slow, done):
        world.work(job.id)
    for job in slow:
        for name in world.pipeline.store.list(layout.of_round(job.id, 0, "done")):
            if layout.chunk_of_done(name) == 0:
                Path(world.pipeline.store.uri.removeprefix("file://"), name).unlink()
    said: list[str] = []
    for run in range(8):
        google.asked.clear()
        cloud = Cloud("p", "r", "store", google, pause=lambda _: None, clock=lambda: len(google.asked) * 2.0)
        released, failures = release(cloud, [TOPIC], run)
        assert not failures
        said += released
    assert any("left to the next run" in text for text in said)
    published = [text for text in said if last.id in text]
    assert published == ([] if mutant else [f"{last.id}: published 2 chunks of round 0"])
    assert {f"{job.id}.json" for job in jobs} <= {name.rpartition("/")[2] for name in held(world)}


def test_a_topic_of_other_things_is_never_published_to(world, google, monkeypatch):
    """With the safeguard removed, the same object is published."""
    store, other = world.pipeline.store, "projects/vision-dev-1/topics/oncall"
    store.put(layout.round_(HELD.job, 0), b'{"arrays": [{"first": 0, "count": 1}]}')
    store.put(layout.held(HELD.job), json.dumps(asdict(replace(HELD, topic=other))).encode())
    cloud = Cloud("p", "r", "store", google, pause=lambda _: None)
    topics: list[str] = []
    monkeypatch.setattr(google, "_publish", lambda url, json: topics.append(url) or Answer(200, b"{}"))
    assert not release(cloud, [TOPIC])[0]
    assert not topics
    reconciler.any_topic(monkeypatch)
    release(cloud, [TOPIC])
    assert topics == [f"{PUBSUB}{other}:publish"]


def test_the_limits_are_those_of_submits():
    assert MOST_CHUNKS == MAX_CHUNKS
    assert ended_jobs.TELLERS == gate.TELLERS


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
