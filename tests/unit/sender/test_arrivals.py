"""Files that arrive, each sent in one job. What this cannot prove: what a cloud's own queues do, and how many events an
hour they carry."""

from __future__ import annotations

import random
from typing import Any

import pytest
import zstandard

from tests.unit.template_fakes import World
from tidemill import layout
from tidemill.errors import CloudError, DamagedError
from tidemill.sender import answer, arrivals
from tidemill.templates import seen_objects
from tidemill.templates.seen_objects import SeenObjects

TILE = ["python3", "tile.py", "{input}", "{output}"]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    made.receive()
    made.save("tiles", TILE, ())
    return made


def test_what_has_arrived_is_sent_when_no_more_comes(world: World) -> None:
    assert world.tick() == {"arrivals": "tiles", "arrived": 0, "waits": "nothing has arrived"}
    world.arrive("a.jpg", "b.jpg")
    for _ in range(4):
        assert world.tick()["waits"] == "objects are arriving"
    world.arrive("c.jpg")
    assert world.tick(2)["waits"] == "objects are arriving"
    sent = world.tick(5)["send"]
    assert (sent["outcome"], sent["number"], sorted(world.taken())) == ("sent", 3, ["a.jpg", "b.jpg", "c.jpg"])
    (job,) = world.jobs()
    assert job.spec.sent_by is not None
    assert (job.spec.sent_by.trigger, job.spec.stages_input) == ("arrivals tiles", True)
    world.arrive("d.jpg")
    assert world.tick(6)["send"]["outcome"] == "sent"
    assert [(row.trigger, row.outcome) for row in world.pipeline.templates.history("tiles")] == [
        ("arrivals tiles", "sent")
    ] * 2
    assert not world.events.waiting
    assert not world.events.underway


def test_events_that_come_twice_late_and_of_other_objects(world: World) -> None:
    world.arrive("a.jpg", "a.jpg", "folder/", "b.jpg")
    world.events.waiting.append([])
    world.arrive("../other/x.jpg")
    world.events.waiting[-1][0] = world.events.waiting[-1][0]._replace(uri="s3://other/x.jpg")
    world.tick(10)
    world.arrive("a.jpg", "b.jpg", ago=3600)
    assert world.tick()["send"] | {"reason": ""} == {
        "template": "tiles", "version": 0, "outcome": "skipped", "job": None, "number": 4, "reason": "",
        "time": world.now.isoformat().replace("+00:00", "Z"),
    }  # fmt: skip
    world.arrive("b.jpg", tag="2")
    world.arrive("c.jpg", ago=3600)
    world.tick(10)
    assert sorted(world.taken()) == ["a.jpg", "b.jpg", "b.jpg", "c.jpg"]
    world.arrive("c.jpg")
    world.tick(15 * 24 * 60)
    world.tick(10)
    assert world.taken().count("c.jpg") == 1


def test_no_more_jobs_than_the_stack_allows_and_none_waits_forever(world: World) -> None:
    world.receive(most_per_hour=2, settle_minutes=1)
    for number in range(120):
        world.arrive(f"{number}.jpg")
        world.tick(2)
    sent = [job.spec.created_at for job in world.jobs()]
    assert len(sent) <= 10
    assert all(sum(0 <= (later - at).total_seconds() < 3600 for later in sent) <= 2 for at in sent)
    world.receive(most_per_hour=100, settle_minutes=30)
    before = len(world.jobs())
    for number in range(120, 180):
        world.arrive(f"{number}.jpg")
        world.tick(2)
    assert len(world.jobs()) == before + 2
    world.tick(40)
    assert sorted(world.taken(), key=lambda name: int(name[:-4])) == [f"{number}.jpg" for number in range(180)]


def test_names_that_others_write_beside_the_notes_are_no_matter(world: World) -> None:
    for name in (
        "x.json.zst",
        "1x.json.zst",
        "0000000001~odd.json",
        "x~sent.json",
        "1~failed-x.json",
        "9" * 11 + "~sent.json",
    ):
        world.store.put(f"sends/tiles/arrivals-tiles/{name}", b"{}")
        world.store.put(f"sends/tiles/pauses/{name}", b"{}")
    world.arrive("a.jpg")
    assert world.tick(10)["send"]["outcome"] == "sent"
    assert [row.outcome for row in world.pipeline.templates.history("tiles")] == ["sent"]


def test_paused_objects_wait_and_none_is_lost(world: World) -> None:
    world.pipeline.templates.pause("tiles", "too dear")
    for number in range(5):
        world.arrive(f"{number}.jpg")
        assert world.tick(10)["waits"] == "the template is paused by ada: too dear"
    assert not world.events.underway
    world.pipeline.templates.resume("tiles")
    assert world.tick()["send"]["outcome"] == "sent"
    assert len(world.taken()) == 5


def test_after_a_pause_each_page_is_read_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.pipeline.templates.pause("tiles", "too dear")
    for number in range(50):
        world.arrive(f"{number}.jpg")
        world.tick()
    world.pipeline.templates.resume("tiles")
    read, real = list[str](), world.store.get
    monkeypatch.setattr(world.store, "get", lambda name: (read.append(name), real(name))[1])
    assert world.tick(10)["send"]["outcome"] == "sent"
    pages = [name for name in read if name.endswith(".json.zst") and name.startswith("sends/")]
    assert len(pages) == len(set(pages)) == 50


def test_a_pattern_means_some_of_the_objects(world: World) -> None:
    world.save("tiles", TILE, "s3://incoming/**.jpg")
    world.arrive("a.jpg", "b.txt", "deep/c.jpg")
    world.tick(10)
    assert sorted(world.taken()) == ["a.jpg", "deep/c.jpg"]
    world.arrive("d.txt")
    assert world.tick(10)["send"]["outcome"] == "skipped"


def test_a_pattern_that_takes_too_long_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "MATCH_SECONDS", 0.0)
    world.save("tiles", TILE, "s3://incoming/**a**a**a**a**a**a**a**a**b")
    world.arrive("a" * 200 + "bc")
    note = world.tick(10)["send"]
    assert note["outcome"] == "failed"
    assert "compared with in 0 seconds" in note["reason"]


def test_a_template_that_is_gone_pauses_and_what_arrives_is_sent_later(world: World) -> None:
    world.pipeline.templates.remove("tiles")
    world.arrive("a.jpg")
    assert [world.tick(10)["send"]["outcome"] for _ in range(3)] == ["failed"] * 3
    assert "3 sends in a row have failed" in world.tick()["waits"]
    world.arrive("b.jpg")
    world.save("tiles", TILE, ())
    world.pipeline.templates.resume("tiles")
    assert world.tick(10)["send"]["outcome"] == "sent"
    assert world.tick(10)["send"]["outcome"] == "sent"
    assert world.taken() == ["b.jpg", "a.jpg"]


@pytest.mark.parametrize("name", ["a\nb", "a\n", "a\x00", "\x1b[31m", "a//b", "../x", "a/./b", "\ud800"])
@pytest.mark.parametrize("command", [TILE, ["tile", "{uri}"]])
def test_no_name_keeps_other_objects_from_being_sent(world: World, command: list[str], name: str) -> None:
    world.save("tiles", command, ())
    world.arrive("a.jpg", name, "%0a{input}*[x].jpg")
    assert world.tick(10)["send"]["outcome"] == "sent"
    assert sorted(world.taken()) == ["%0a{input}*[x].jpg", "a.jpg"]
    world.arrive(name, tag="2")
    world.tick(10)
    world.arrive("b.jpg")
    assert world.tick(10)["send"]["outcome"] == "sent"


def test_an_entry_that_unpacks_to_more_than_there_is_room_for(world: World) -> None:
    bomb = zstandard.ZstdCompressor().compress(b" " * (1 << 27) + b"{}")
    world.store.put(f"sends/tiles/arrivals-tiles/{layout.newest_first(1)}.json.zst", bomb)
    with pytest.raises(DamagedError, match="bytes at most"):
        world.tick(10)


@pytest.mark.parametrize(
    ("prefix", "output"),
    [
        ("s3://incoming/", "s3://incoming/out/tiles"),
        ("s3://incoming/out/2026/", "s3://incoming/out/{time:%Y}/x"),
        ("s3://incoming/out/2026", "s3://incoming/out/{time:%Y}"),
    ],
)
def test_jobs_that_write_where_their_objects_arrive_are_refused(
    monkeypatch: pytest.MonkeyPatch, prefix: str, output: str
) -> None:
    world = World(monkeypatch, writable=["s3://incoming/out/"])
    world.receive(prefix=prefix)
    world.save("tiles", TILE, (), output=output)
    world.arrive(f"{prefix[14:]}/a.jpg" if prefix[14:] else "a.jpg")
    send = world.tick(10)["send"]
    assert (send["outcome"], "where its objects arrive" in send["reason"]) == ("failed", True)


@pytest.mark.parametrize("error", [CloudError("SQS does not answer."), TypeError("SQS is a list.")], ids=type)
def test_a_queue_that_does_not_answer_does_not_hold_up_others(world: World, error: Exception) -> None:
    tiles = world.pipeline.descriptor.arrivals["tiles"]
    world.pipeline.descriptor.arrivals.clear()
    world.pipeline.descriptor.arrivals["broken"] = tiles.model_copy(update={"queue": "broken"})
    world.pipeline.descriptor.arrivals["tiles"] = tiles
    world.arrive("a.jpg")

    def open_events(descriptor: Any, queue: str) -> Any:
        if queue == "broken":
            raise error
        return world.events

    with pytest.raises(type(error), match="SQS"):
        answer(world.pipeline.site, {"arrivals": True}, open_events)
    assert not world.events.waiting


class KilledError(BaseException):
    """The sender dies here."""


@pytest.mark.parametrize("seed", range(3))
def test_senders_that_die_anywhere_take_each_object_once(
    monkeypatch: pytest.MonkeyPatch, world: World, seed: int
) -> None:
    """Objects arrive in bursts; senders die at writes, and what they have not forgotten is delivered again."""
    monkeypatch.setattr("tidemill.sender.arrivals.PAGE_OBJECTS", 40)
    dice, names, died = random.Random(seed), list[str](), 0
    left = [0]

    def step(real: Any) -> Any:
        def stepped(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise KilledError
            answered = real(*given, **named)
            if left[0] == -100:
                raise KilledError
            return answered

        return stepped

    for owner, name in (
        (world.store, "put"),
        (world.store, "create"),
        (world.backend, "enqueue"),
        (world.events, "forget"),
    ):
        monkeypatch.setattr(owner, name, step(getattr(owner, name)))
    for minute in range(150):
        if minute < 120 and minute % 20 < 6:
            burst = [f"{minute}-{number}.jpg" for number in range(dice.randrange(60))]
            names += burst
            world.arrive(*burst, *dice.sample(names, min(len(names), 5)))
        left[0] = dice.choice([0, 0, *range(1, 14), -99 + dice.randrange(12)]) if minute < 140 else 0
        try:
            world.tick(1.5)
        except KilledError:
            died += 1
            world.events.lose_receiver()
    assert sorted(world.taken()) == sorted(names)
    assert died > 10
    assert len({fake.array.name for fake in world.backend.arrays}) == len(world.backend.arrays)


def test_what_is_known_of_objects_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_objects, "MOST", 10)
    seen, day = SeenObjects(), 86_400
    for number in range(6):
        seen.add({number * 2, number * 2 + 1}, number * day)
    again = SeenObjects(seen.encode())
    assert [key in again for key in range(12)] == [False] * 2 + [True] * 10
    again.add({99}, 19 * day)
    assert [key in again for key in (9, 10, 11, 99)] == [False, True, True, True]
