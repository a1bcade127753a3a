"""Templates: saved, and sent by hand and by a schedule as the same job. What this cannot prove: a cloud's grants."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.stored import read_items
from tests.unit.template_fakes import COMMAND, World
from tidemill import layout
from tidemill.client import Pipeline
from tidemill.errors import CallerError, StoreDeniedError
from tidemill.ledger.documents import TamperedError
from tidemill.store import Store
from tidemill.templates.template import Template, add_version

DAYS = ["s3://raw/2026/11/22/a.jpg", "s3://raw/2026/11/23/b.jpg", "s3://raw/2026/11/23/deep/c.jpg", "s3://raw/x.jpg"]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    made.buckets.put(*DAYS)
    made.schedule()
    return made


def test_by_hand_and_by_the_scheduler_it_is_the_same_job(world: World) -> None:
    world.save()
    job = world.pipeline.templates.send("nightly", "2026-11-23")
    assert [item.uri for item in read_items(world.store, job.id)] == DAYS[1:3]
    assert job.spec.sent_by is not None
    assert job.spec.sent_by.words() == "schedule nightly, template nightly@1, saved by ada"
    world.buckets.put("s3://raw/2026/11/23/late.jpg")
    (sent,) = world.fire("2026-11-23T02:00+01:00")
    again = world.pipeline.templates.send("nightly", datetime(2026, 11, 23, 1, tzinfo=UTC))
    assert (sent["outcome"], sent["job"], again.id) == ("sent", job.id, job.id)
    assert len(world.jobs()) == len(world.backend.arrays) == 1
    assert world.outcomes() == [("2026-11-23", "sent")]


def test_a_time_that_no_schedule_has_is_a_send_by_hand(world: World) -> None:
    world.save(items=["s3://raw/{time-1d:%Y/%m/%d}/a.jpg"], command=[*COMMAND, "{time:%H}"])
    job = world.pipeline.templates.send("nightly", "2026-11-23T17:30")
    assert (job.spec.command or [])[-1] == "17"
    assert [item.uri for item in read_items(world.store, job.id)] == DAYS[:1]
    assert job.spec.sent_by is not None
    assert (job.spec.sent_by.trigger, job.spec.sent_by.time.hour) == ("hand", 17)
    assert world.pipeline.templates.send("nightly", "2026-11-23T16:30+00:00").id == job.id
    assert world.pipeline.templates.send("nightly").id != job.id


def test_what_becomes_of_a_send_by_hand_is_noted_and_it_may_be_tried_again(world: World) -> None:
    world.save(env={"DAY": "{time:%Y-%m-%d}"}, tags={"day": "{time-1d:%d}"})
    assert world.pipeline.templates.remarks("nightly") == [
        "Template nightly has never been sent. It is sent by schedule nightly."
    ]
    with pytest.raises(CallerError, match="There are no items"):
        world.pipeline.templates.send("nightly", "2026-11-21T09:00")
    assert world.outcomes() == [("2026-11-21", "skipped")]
    world.buckets.put("s3://raw/2026/11/21/a.jpg")
    spec = world.pipeline.templates.send("nightly", "2026-11-21T09:00").spec
    assert (spec.env["DAY"], spec.tags["day"]) == ("2026-11-21", "20")
    assert world.outcomes() == [("2026-11-21", "sent")]


def test_a_template_that_the_stack_sends_is_named_before_it_is_saved(world: World) -> None:
    templates = world.pipeline.templates
    (row,) = templates.list()
    assert (row.name, row.version, row.sent_by, row.last) == ("nightly", 0, ["schedule nightly"], None)
    assert templates.history("nightly") == []
    world.fire("2026-11-23T02:00+01:00")
    not_saved, failed = templates.remarks("nightly")
    assert "Template nightly is not saved. `tidemill template save nightly`" in not_saved
    assert "by schedule nightly for 2026-11-23T02:00+01:00 was failed: There is no template" in failed
    assert world.outcomes() == [("2026-11-23", "failed")]
    assert [row.last and row.last.outcome for row in templates.list()] == ["failed"]


def test_code_travels_by_content_and_a_version_is_kept(world: World, tmp_path: Path) -> None:
    (tmp_path / "tile.py").write_text("print(1)")
    (tmp_path / "requirements.txt").write_text("numpy")
    first = world.save(code=tmp_path)
    assert (world.save(code=tmp_path).version, first.settings["command"][1]) == (1, "{code}/tile.py")
    (tmp_path / "tile.py").write_text("print(2)")
    second = world.save(code=tmp_path, attempts=5)
    assert (second.version, second.settings["attempts"], "code" in second.settings) == (2, 5, False)
    (tmp_path / "tile.py").unlink()
    job = world.pipeline.templates.send("nightly@1", "2026-11-23T09:00")
    assert (job.spec.code, job.spec.attempts) == (first.code, 3)
    assert world.store.exists(layout.code(job.id, str(first.code)))


def test_a_send_again_shares_nothing_with_itself(world: World) -> None:
    template = world.save(changed=True)
    assert (template.code, template.settings["changed"], template.settings["queue"]) == (None, True, "cpu")
    job = world.pipeline.templates.send("nightly", "2026-11-22")
    world.backend.run(world.pipeline, job.id)
    world.buckets.put("s3://raw/2026/11/22/more.jpg")
    assert world.pipeline.templates.send("nightly", "2026-11-22").id == job.id


def test_other_jobs_of_the_name_and_equal_digests_are_no_matter(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class SameDigest:
        def __init__(self, data: bytes) -> None:
            self.data = data

        def hexdigest(self) -> str:
            return "0" * 8 if b", 0]" in self.data else f"{hash(self.data) % 2**32:08x}"

    world.save()
    with monkeypatch.context() as patch:
        patch.setattr("tidemill.client.sending.identity.hashlib", SimpleNamespace(sha256=SameDigest))
        ids = {world.pipeline.templates.send("nightly", f"2026-11-{day}").id for day in (22, 23)}
        assert {world.pipeline.templates.send("nightly", f"2026-11-{day}").id for day in (22, 23)} == ids
    assert len(ids) == 2


def test_a_removed_template_is_not_sent_until_it_is_saved_again(world: World) -> None:
    world.save()
    world.pipeline.templates.send("nightly", "2026-11-22")
    world.pipeline.templates.remove("nightly")
    assert "not saved" in world.pipeline.templates.remarks("nightly")[0]
    with pytest.raises(CallerError, match="no template 'nightly'"):
        world.pipeline.templates.send("nightly", "2026-11-23")
    assert [row.version for row in world.pipeline.templates.list()] == [0]
    assert world.outcomes() == [("2026-11-22", "sent")]
    assert world.save().version == 3
    assert [row.last and row.last.outcome for row in world.pipeline.templates.list()] == ["sent"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "Nightly"}, "name is 'Nightly'"),
        ({"queue": "cpus"}, "cpus"),
        ({"image": "other"}, "other"),
        ({"attempts": 99}, "attempts is 99"),
        ({"env": {"API_KEY": "x"}}, "looks like a secret"),
        ({"secrets": ["HF_TOKEN"]}, "secrets is given"),
        ({"force": True}, "force is given"),
        ({"items": "s3://raw/{time}/**.jpg"}, "items is '{time}'"),
        ({"items": "s3://raw/{time:%Q}/**.jpg"}, "%Q"),
        ({"items": "s3://raw/{tiem:%Y}/**.jpg"}, "items is '{tiem:%Y}'"),
        ({"env": {"DAY": "{time}"}}, "env.DAY is '{time}'"),
        ({"items": "s3://raw/{time-1w:%d}/**.jpg"}, "time-1w"),
        ({"items": "s3://other/{time:%d}/*.jpg"}, "items is 's3://other"),
        ({"items": "s3://rawer/*.jpg"}, "tidemill:data.read"),
        ({"items": "."}, "a path of this machine"),
        ({"items": [__file__]}, "is a file of this machine"),
        ({"items": "-"}, "without a person"),
        ({"items": [1, 2]}, "a list in a store"),
        ({"items": ["x" * 1000] * 2000}, "at most"),
        ({"inputs": {"model": __file__}}, "a path of this machine"),
        ({"notify": "https://hooks.example.com/1"}, "a channel"),
        ({"function": len, "command": None}, "an object of Python"),
        ({"after": ["gone"]}, "gone"),
        ({"attempt": 3}, "Did you mean 'attempts'"),
        ({"command": ["x", "{time:%s}"]}, "command is '{time:%s}'"),
        ({"output": "s3://elsewhere/x"}, "output is"),
    ],
)
def test_a_mistake_is_refused_before_anything_is_kept(world: World, changes: dict[str, Any], said: str) -> None:
    before = list(world.store.list(""))
    with pytest.raises(CallerError) as refused:
        world.save(**changes)
    assert said in str(refused.value)
    assert list(world.store.list("")) == before


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda templates: templates.send("other"), "no template 'other'"),
        (lambda templates: templates.send("nightly@7"), "version of template nightly is 7"),
        (lambda templates: templates.send("Nightly"), "template is 'Nightly'"),
        (lambda templates: templates.send("nightly", "yesterday"), "at is 'yesterday'"),
        (lambda templates: templates.send("nightly", "2027-01-01"), "before now"),
        (lambda templates: templates.send("nightly", "2062-11-23T09:00"), "at most a day after now"),
        (lambda templates: templates.send("nightly", schedule="weekly"), "no schedule 'weekly'"),
        (lambda templates: templates.remove("nightly@1"), "without a version"),
        (lambda templates: templates.pause("nightly@1"), "without a version"),
        (lambda templates: templates.pause("other"), "no template"),
        (lambda templates: templates.history("other"), "no template"),
    ],
)
def test_what_cannot_be_sent(world: World, call: Any, said: str) -> None:
    world.save()
    with pytest.raises(CallerError, match=said):
        call(world.pipeline.templates)
    assert not list(world.store.list("sends"))


@pytest.mark.parametrize(
    ("forged", "said"),
    [
        ({"items": "SECRET"}, "a path of this machine"),
        ({"items": "file://SECRET"}, "a path of this machine"),
        ({"items": ["SECRET"]}, "files of the machine"),
        ({"items": ["file://SECRET"]}, "files of the machine"),
        ({"items": "s3://raw/list.txt"}, "files of the machine"),
        ({"inputs": {"model": "SECRET"}}, "a path of this machine"),
        ({"inputs": {"model": "file://SECRET"}}, "files of the machine"),
        ({"inputs": ["SECRET"]}, "inputs"),
        ({"libs": ["FOLDER"]}, "libs"),
        ({"code": "FOLDER"}, "code"),
        ({"secrets": ["HF_TOKEN"]}, "secrets"),
        ({"name": "weekly"}, "name"),
        ({"watch": "x", "confirm": "x", "log": "x"}, "confirm, log, watch"),
        ({"notify": "https://hooks.example.com/1"}, "a channel"),
        ({"notify": ["x"]}, "a channel"),
    ],
)
def test_a_template_that_others_have_written_gives_them_nothing_of_who_sends_it(
    world: World, tmp_path: Path, forged: dict[str, Any], said: str
) -> None:
    secret = tmp_path / "credentials"
    secret.write_text("top secret")
    put = json.loads(json.dumps(forged).replace("SECRET", str(secret)).replace("FOLDER", str(tmp_path)))
    store, name = world.buckets.locate("s3://raw/list.txt")
    store.put(name, str(secret).encode())
    settings = {"command": ["cat", "{input}"], "queue": "cpu", "items": ["s3://raw/a"], **put}
    add_version(world.store, Template(name="nightly", version=1, saved_by="eve", saved_at=world.now, settings=settings))
    with pytest.raises(CallerError, match=said):
        world.pipeline.templates.send("nightly", "2026-11-22")
    assert not any(b"top secret" in world.store.get(name) for name in world.store.list(""))
    assert not list(world.store.list("uploads"))


def test_a_version_is_what_its_name_says(world: World) -> None:
    other = world.save("weekly")
    world.save()
    for number in ("007", "\u0663", "9" * 12, "x"):
        world.store.put(f"templates/nightly/versions/{number}.json", b"{}")
    assert world.pipeline.templates.find("nightly").version == 1
    world.store.put(layout.template_version("nightly", 2), other.model_dump_json().encode())
    with pytest.raises(TamperedError, match="weekly@1"):
        world.pipeline.templates.send("nightly", "2026-11-22")


def test_code_that_was_exchanged_is_not_sent(world: World, tmp_path: Path) -> None:
    (tmp_path / "tile.py").write_text("print(1)")
    (tmp_path / "other.py").write_text("print(2)")
    first = world.save(code=tmp_path)
    (tmp_path / "other.py").write_text("print(3)")
    second = world.save(code=tmp_path)
    first_name, second_name = (layout.template_code("nightly", str(each.code)) for each in (first, second))
    world.store.put(second_name, world.store.get(first_name))
    with pytest.raises(TamperedError, match="SHA-256"):
        world.pipeline.templates.send("nightly", "2026-11-22")


class KilledError(BaseException):
    """The sender dies here."""


def dying(world: World, at: int, call: Any) -> bool:
    """Call the sender, which dies before its `at`-th write or enqueued array; false where there are fewer."""
    left = [at]

    def step(real: Any) -> Any:
        def stepped(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise KilledError
            return real(*given, **named)

        return stepped

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((world.store, "put"), (world.store, "create"), (world.backend, "enqueue")):
            patch.setattr(owner, name, step(getattr(owner, name)))
        try:
            call()
        except KilledError:
            return True
    return False


def test_a_sender_that_dies_anywhere_sends_one_job_of_what_it_first_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    """The listing and the template change in between, and the next call finishes."""
    for at in range(1, 30):
        world = World(monkeypatch)
        world.buckets.put(*DAYS)
        world.schedule()
        world.save()
        died = dying(world, at, lambda world=world: world.fire("2026-11-23T02:00+01:00"))
        world.buckets.put("s3://raw/2026/11/23/late.jpg")
        world.save(attempts=7)
        (sent,) = world.fire("2026-11-23T02:00+01:00")
        (job,) = world.jobs()
        items = [item.uri for item in read_items(world.store, job.id)]
        assert (sent["job"], job.spec.items_total, job.status().items) == (job.id, len(items), len(items)), at
        assert len({fake.array.name for fake in world.backend.arrays}) == len(world.backend.arrays) == 1, at
        assert job.spec.attempts == (7 if died and sent["version"] == 2 else 3), at
        assert items in (DAYS[1:3], [*DAYS[1:3], "s3://raw/2026/11/23/late.jpg"]), at
        if not died:
            assert at > 8
            return
    raise AssertionError("more writes than expected")


@pytest.mark.parametrize("changes", [{}, {"schedules": {}}])
def test_a_stack_that_sends_nothing_says_which_key_lets_people_save(
    world: World, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """Only stacks with a schedule or arrivals let submitters on AWS write templates."""

    def refuse(store: Store, name: str, data: bytes) -> None:
        raise StoreDeniedError(f"PUT of {store.uri_of(name)} was refused.", code="AccessDenied")

    world.pipeline = Pipeline(world.pipeline.descriptor.model_copy(update=changes), world.store, world.backend)
    monkeypatch.setattr(Store, "create", refuse)
    with pytest.raises(StoreDeniedError) as raised:
        world.save()
    assert ("tidemill:schedules" in str(raised.value)) == bool(changes)
    assert "denied" not in str(raised.value)
