"""What the sender does when a schedule is due: late, twice, never, paused, with a job before it that has not ended.

What this cannot prove: when a cloud's scheduler fires, and how often.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from tests.stored import read_items
from tests.unit.template_fakes import World
from tidemill import layout
from tidemill.client.sending.identity import sent_job
from tidemill.client.templates import sends
from tidemill.errors import CallerError, CloudError, StoreDeniedError
from tidemill.sender import answer, handle
from tidemill.templates.notes import TriggerNotes

ONE = ["s3://raw/{time:%Y/%m/%d/%H%M}/a.jpg"]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    made.schedule(overlap="allow")
    made.save(items=ONE)
    return made


def items(world: World, jobs: list[str]) -> list[str]:
    """The only item of each job, without its bucket and name."""
    uris = [item.uri for job in jobs for item in read_items(world.store, job)]
    return [uri.removeprefix("s3://raw/").removesuffix("/a.jpg") for uri in uris]


def kinds(sends: list[dict[str, Any]]) -> list[str]:
    return [f"{send['time'][8:10]} {send['outcome']}" for send in sends]


def test_a_time_that_was_missed_is_caught_up_once_and_older_ones_are_noted(world: World) -> None:
    assert kinds(world.fire("2026-11-20T02:00+01:00")) == ["20 sent"]
    sends = world.fire("2026-11-24T02:00+01:00")
    assert kinds(sends) == ["21 missed", "22 missed", "23 sent", "24 sent"]
    assert "--schedule nightly --at 2026-11-22T02:00" in sends[1]["reason"]
    assert kinds(world.fire("2026-11-24T02:00+01:00")) == ["24 sent"]
    by_hand = world.pipeline.templates.send("nightly", "2026-11-22")
    assert world.outcomes()[:4] == [(f"2026-11-{day}", "sent") for day in (24, 23, 22)] + [("2026-11-21", "missed")]
    assert kinds(world.fire("2026-11-22T02:00+01:00")) == ["22 sent"]
    assert len(world.jobs()) == 4
    assert by_hand.id in {job.id for job in world.jobs()}


def test_a_scheduler_that_is_late_or_fires_twice_or_in_disorder_sends_one_job_per_time(world: World) -> None:
    for day in (20, 22, 22, 21, 23, 20, 23):
        world.fire(f"2026-11-{day}T02:00+01:00", late=timedelta(hours=1))
    assert world.outcomes() == [(f"2026-11-{day}", "sent") for day in (23, 22, 21, 20)]
    assert sorted(items(world, [job.id for job in world.jobs()])) == [f"2026/11/{day}/0200" for day in (20, 21, 22, 23)]


def test_the_schedulers_own_second_and_zone_are_no_matter(world: World) -> None:
    (first,) = world.fire("2026-11-20T01:00:41.5+00:00")
    (again,) = world.fire("2026-11-19T15:00:00-10:00")
    assert (first["time"], first["job"]) == (again["time"], again["job"])
    assert items(world, [first["job"]]) == ["2026/11/20/0200"]


@pytest.mark.parametrize(
    ("cron", "zone", "fired", "expected"),
    [
        # The clock skips from 02:00 to 03:00, and a scheduler may fire then, before, or not at all.
        ("30 2 * * *", "Europe/Berlin", ["03-28T02:30+01:00", "03-30T02:30+02:00"], ["28/0230", "29/0300", "30/0230"]),
        ("30 2 * * *", "Europe/Berlin", ["03-28T02:30+01:00", "03-29T03:30+02:00"], ["28/0230", "29/0300"]),
        # 02:30 is there twice.
        ("30 2 * * *", "Europe/Berlin", ["10-25T00:30+00:00", "10-25T01:30+00:00"], ["25/0230"]),
        ("30 2 * * *", "Europe/Berlin", ["10-25T01:30+00:00", "10-26T01:30+00:00"], ["25/0230", "26/0230"]),
        ("30 * * * *", "Europe/Berlin", ["10-25T00:30+00:00", "10-25T01:30+00:00"], ["25/0230", "25/0230"]),
        # West of the date line it is another day.
        ("0 23 * * *", "Pacific/Kiritimati", ["06-01T09:00+00:00"], ["01/2300"]),
        ("0 23 * * *", "Pacific/Pago_Pago", ["06-01T10:00+00:00"], ["31/2300"]),
        ("0 0 1 * *", "America/Lima", ["06-01T05:00+00:00", "07-01T05:00+00:00"], ["01/0000", "01/0000"]),
    ],
)
def test_clocks_and_zones(world: World, cron: str, zone: str, fired: list[str], expected: list[str]) -> None:
    world.schedule(cron=cron, timezone=zone, overlap="allow")
    for time in fired:
        world.fire(f"2026-{time}")
    sent = [str(row.job) for row in reversed(world.pipeline.templates.history("nightly"))]
    assert [item[8:] for item in items(world, sent)] == expected
    assert len(world.jobs()) == len(expected)


def test_both_times_of_a_doubled_hour_are_caught_up_or_noted(world: World) -> None:
    world.schedule(cron="30 * * * *", overlap="allow")
    world.fire("2026-10-24T23:30+00:00")
    sends = world.fire("2026-10-25T02:30+00:00")
    assert [send["time"] for send in sends] == [
        f"2026-10-25T{time}:00" for time in ("02:30:00+02", "02:30:00+01", "03:30:00+01")
    ]
    assert kinds(sends) == ["25 missed", "25 sent", "25 sent"]
    assert "--at 2026-10-25T02:30+02:00`" in sends[0]["reason"]
    by_hand = [world.pipeline.templates.send("nightly", f"2026-10-25T02:30+0{hours}:00").id for hours in (1, 2)]
    assert by_hand[0] == sends[1]["job"]
    assert [job.spec.sent_by and job.spec.sent_by.trigger for job in world.jobs()] == ["schedule nightly"] * 4


def test_a_sender_that_died_in_a_doubled_hour_is_caught_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.schedule(cron="30 * * * *", overlap="allow")
    with monkeypatch.context() as patch:
        patch.setattr(world.backend, "enqueue", Mock(side_effect=CloudError("Batch does not answer.")))
        with pytest.raises(CloudError):
            world.fire("2026-10-25T00:30+00:00")
    assert [send["outcome"] for send in world.fire("2026-10-25T01:30+00:00")] == ["sent", "sent"]
    assert len(world.backend.arrays) == 2


def test_the_29th_of_february(world: World) -> None:
    world.schedule(cron="0 0 29 2 *", overlap="allow")
    world.fire("2024-02-29T00:00+01:00")
    assert kinds(world.fire("2028-02-29T00:00+01:00")) == ["29 sent"]


def test_a_schedule_that_was_changed_has_missed_nothing(world: World) -> None:
    world.fire("2026-11-20T02:00+01:00")
    world.schedule(cron="0 * * * *", overlap="allow")
    assert kinds(world.fire("2026-11-20T18:00+01:00")) == ["20 sent"]


@pytest.mark.parametrize(("overlap", "then"), [("skip", "skipped"), ("wait", "sent"), ("allow", "sent")])
def test_a_job_before_that_has_not_ended(world: World, overlap: str, then: str) -> None:
    world.schedule(overlap=overlap)
    (first,) = world.fire("2026-11-20T02:00+01:00")
    (second,) = world.fire("2026-11-21T02:00+01:00")
    assert second["outcome"] == then
    assert (first["job"] in str(second["reason"])) == (then == "skipped")
    waits = [after.job for job in world.jobs() for after in job.spec.after]
    assert waits == ([first["job"]] if overlap == "wait" else [])
    world.backend.run(world.pipeline, first["job"])
    (third,) = world.fire("2026-11-22T02:00+01:00")
    assert third["outcome"] == "sent"


def test_a_program_of_a_job_has_nothing_sent_and_keeps_nothing_from_being_sent(world: World) -> None:
    """A job's program may write `jobs/`, and cannot read `sends/`: it writes down the send before it is due."""
    world.schedule(overlap="skip")
    (first,) = world.fire("2026-11-22T02:00+01:00")
    spec, due = world.pipeline.job(first["job"]).spec, datetime.fromisoformat("2026-11-23T01:00+00:00")
    assert spec.sent_by is not None
    world.backend.run(world.pipeline, spec.job)
    sent_by = spec.sent_by.model_copy(update={"time": due})
    forged = spec.model_copy(update={"command": ["steal"], "sent_by": sent_by, "created_at": due})
    foreseen = sent_job(world.store, sent_by).job
    for job in (foreseen, "nightly-00000000"):
        world.store.put(layout.spec(job), forged.model_copy(update={"job": job}).model_dump_json().encode())
    (sent,) = world.fire("2026-11-23T02:00+01:00")
    assert (sent["outcome"], sent["job"] in (foreseen, "nightly-00000000")) == ("sent", False)
    assert world.pipeline.job(sent["job"]).spec.command == spec.command
    assert {fake.array.address.job for fake in world.backend.arrays} == {spec.job, sent["job"]}


def test_a_job_that_can_never_be_complete_holds_nothing_up(world: World) -> None:
    world.schedule(overlap="wait")
    (first,) = world.fire("2026-11-20T02:00+01:00")
    world.pipeline.job(first["job"]).cancel()
    (second,) = world.fire("2026-11-21T02:00+01:00")
    assert (second["outcome"], world.pipeline.job(second["job"]).spec.after) == ("sent", [])


def test_with_skip_a_time_that_is_caught_up_does_not_skip_the_one_that_is_due(world: World) -> None:
    world.schedule(overlap="skip")
    (first,) = world.fire("2026-11-20T02:00+01:00")
    world.backend.run(world.pipeline, first["job"])
    caught, due = world.fire("2026-11-22T02:00+01:00")
    assert (caught["outcome"], due["outcome"]) == ("sent", "sent")
    assert [after.job for after in world.pipeline.job(due["job"]).spec.after] == [caught["job"]]


def test_paused_nothing_is_sent_and_nothing_is_caught_up(world: World) -> None:
    world.fire("2026-11-20T02:00+01:00")
    assert world.pipeline.templates.pause("nightly", "the camera is broken")
    assert not world.pipeline.templates.pause("nightly")
    (skipped,) = world.fire("2026-11-21T02:00+01:00")
    pause, send = world.pipeline.templates.remarks("nightly")
    assert "Template nightly is paused by ada: the camera is broken." in pause
    assert "by schedule nightly for 2026-11-21T02:00+01:00 was skipped: The template is paused by ada" in send
    assert [row.sent_by for row in world.pipeline.jobs()] == ["schedule nightly"]
    assert (skipped["outcome"], skipped["reason"]) == (
        "skipped",
        "The template is paused by ada: the camera is broken",
    )
    assert world.pipeline.templates.list()[0].paused == "paused by ada: the camera is broken"
    assert world.pipeline.templates.resume("nightly")
    assert not world.pipeline.templates.resume("nightly")
    assert kinds(world.fire("2026-11-22T02:00+01:00")) == ["22 sent"]


def test_nothing_that_matches_is_no_failure(world: World) -> None:
    world.save(items="s3://raw/{time:%Y/%m/%d}/**.jpg")
    for day in range(20, 25):
        (sent,) = world.fire(f"2026-11-{day}T02:00+01:00")
        assert (sent["outcome"], "There are no items" in sent["reason"]) == ("skipped", True)
    assert world.pipeline.templates.list()[0].paused == ""


def test_a_queue_that_the_stack_does_not_name_is_refused_to_the_sender_alone(world: World) -> None:
    world.save(items=ONE, queue="gpu")
    (sent,) = world.fire("2026-11-20T02:00+01:00")
    assert (sent["outcome"], "schedule nightly sends to: cpu" in sent["reason"]) == ("failed", True)
    assert world.pipeline.templates.send("nightly", "2026-11-20").spec.queue == "gpu"


@pytest.mark.parametrize("how", ["gone", "queue", "denied"])
def test_three_failures_in_a_row_pause_it_and_its_channel_is_told(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    world = World(monkeypatch, channels={"team": "arn:topic"})
    world.schedule(overlap="allow")
    world.save(items=ONE, notify="team")
    if how == "queue":
        left = {"gpu": world.pipeline.descriptor.queues["gpu"]}
        world.pipeline.site.descriptor.queues.clear()
        world.pipeline.site.descriptor.queues.update(left)
    if how == "denied":

        def refuse(*given: Any) -> None:
            raise StoreDeniedError("AccessDenied: batch:SubmitJob", code="AccessDenied")

        monkeypatch.setattr(world.backend, "enqueue", refuse)
    if how == "gone":
        world.pipeline.templates.remove("nightly")
    outcome = "denied" if how == "denied" else "failed"
    for day in (20, 21, 22):
        assert kinds(world.fire(f"2026-11-{day}T02:00+01:00")) == [f"{day} {outcome}"]
        assert kinds(world.fire(f"2026-11-{day}T02:00+01:00")) == [f"{day} {outcome}"]
    assert kinds(world.fire("2026-11-23T02:00+01:00")) == ["23 skipped"]
    told = [] if how == "gone" else ["arn:topic"]
    assert [topic for topic, _ in world.told] == told
    if how == "queue":
        world.schedule(overlap="allow", queues=["gpu"])
        world.save(items=ONE, queue="gpu")
        world.pipeline.templates.resume("nightly")
        assert kinds(world.fire("2026-11-24T02:00+01:00")) == ["24 sent"]
        assert world.pipeline.templates.send("nightly", "2026-11-20").spec.queue == "gpu"


def test_a_cloud_that_does_not_answer_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = world.backend.enqueue, [2]

    def enqueue(*given: Any) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise CloudError("Batch does not answer.")
        real(*given)

    monkeypatch.setattr(world.backend, "enqueue", enqueue)
    for _ in range(2):
        with pytest.raises(CloudError):
            world.fire("2026-11-20T02:00+01:00")
    # The scheduler has given up, and the next time finds what was begun.
    assert kinds(world.fire("2026-11-21T02:00+01:00")) == ["20 sent", "21 sent"]
    assert len(world.backend.arrays) == len(world.jobs()) == 2


def test_events_that_are_none(world: World, tmp_path: Any) -> None:
    assert answer(world.pipeline.site, {"schedule": "gone", "time": "2026-11-20T02:00Z"})["sends"] == []
    for event in ({}, {"schedule": "nightly"}, {"schedule": "nightly", "time": "2026-11-20T02:00"}):
        with pytest.raises(CallerError):
            answer(world.pipeline.site, event)
    with pytest.raises(CallerError, match="does not exist"):
        handle(f"{tmp_path.as_uri()}/pipeline.json", {})


@pytest.mark.parametrize("overlap", ["skip", "wait"])
def test_a_job_behind_one_that_was_cancelled_holds_nothing_up(world: World, overlap: str) -> None:
    world.schedule(overlap="wait")
    sent = [world.fire(f"2026-11-{day}T02:00+01:00")[0]["job"] for day in (18, 19, 20)]
    world.pipeline.job(sent[0]).cancel()
    world.schedule(overlap=overlap)
    (fourth,) = world.fire("2026-11-21T02:00+01:00")
    assert (fourth["outcome"], world.pipeline.job(fourth["job"]).spec.after) == ("sent", [])


@pytest.mark.parametrize("overlap", ["skip", "wait"])
def test_a_job_that_has_missed_its_start_holds_nothing_up(world: World, overlap: str) -> None:
    world.schedule(overlap=overlap)
    world.save(items=ONE, start_within_seconds=3600)
    (first,) = world.fire("2026-11-20T02:00+01:00")
    (second,) = world.fire("2026-11-21T02:00+01:00")
    assert (second["outcome"], world.pipeline.job(second["job"]).spec.after) == ("sent", [])
    assert first["job"] != second["job"]
    world.save(items=ONE, start_within_seconds=90_000)
    world.fire("2026-11-22T02:00+01:00")
    (fourth,) = world.fire("2026-11-23T02:00+01:00")
    assert (fourth["outcome"], "has not ended" in fourth["reason"]) == ("skipped", True)


def test_a_time_whose_job_was_removed_is_not_sent_again(world: World) -> None:
    (sent,) = world.fire("2026-11-20T02:00+01:00")
    world.store.delete([name for name in world.store.list("jobs") if sent["job"] in name])
    assert world.fire("2026-11-20T02:00+01:00") == [sent]
    with pytest.raises(CallerError, match=f"its job {sent['job']} is gone.*Each time has one job"):
        world.pipeline.templates.send("nightly", "2026-11-20")
    assert world.jobs() == []


def test_a_time_in_the_future_means_now(world: World) -> None:
    world.fire("2026-11-20T02:00+01:00")
    assert kinds(world.fire("2027-11-20T02:00+01:00", late=-timedelta(days=364))) == ["21 sent"]
    assert kinds(world.fire("2026-11-22T02:00+01:00", late=-timedelta(seconds=20))) == ["22 sent"]


@pytest.mark.parametrize("between", ["pause", "remove", "save"])
def test_a_job_that_is_written_down_is_sent_whatever_becomes_of_its_template(
    world: World, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(world.backend, "enqueue", Mock(side_effect=CloudError("Batch does not answer.")))
        with pytest.raises(CloudError):
            world.fire("2026-11-20T02:00+01:00")
    if between == "save":
        world.save(items=ONE, queue="gpu")
    else:
        getattr(world.pipeline.templates, between)("nightly")
    (sent,) = world.fire("2026-11-20T02:00+01:00")
    assert (sent["outcome"], sent["version"]) == ("sent", 1)
    assert len(world.backend.arrays) == len(world.jobs()) == 1


def test_two_that_send_a_missed_time_use_one_version(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fire("2026-11-20T02:00+01:00")
    world.fire("2026-11-23T02:00+01:00")
    real, notes = sends.submitted, TriggerNotes.newest(TriggerNotes(world.store, "nightly", "schedule nightly"))

    def submitted(*given: Any) -> Any:
        monkeypatch.setattr(sends, "submitted", real)
        world.save(items=ONE, command=["true", "{uri}", "{output}"])
        with monkeypatch.context() as patch:
            patch.setattr(TriggerNotes, "newest", lambda self: notes)
            world.fire("2026-11-21T02:00+01:00")
        return real(*given)

    monkeypatch.setattr(sends, "submitted", submitted)
    world.pipeline.templates.send("nightly", "2026-11-21")
    assert len(world.jobs()) == 4
