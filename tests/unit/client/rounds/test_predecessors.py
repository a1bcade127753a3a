"""Jobs after jobs on a queue that keeps arrays waiting: what is refused, what is held, and how a chain ends.

`Batch` fails what waits for a failed array, as AWS Batch does. That it does is in docs/cloud-facts.md; an account has
the last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.unit.client_fakes import FakeBackend, descriptor, outcome, uris
from tests.unit.ledger.two_workers import OneLease
from tidemill.cli.commands.wait import facts
from tidemill.client import Job, Pipeline, Status
from tidemill.client.rounds import deliveries, enqueue
from tidemill.errors import CallerError, StoreDeniedError, StoreMissingError
from tidemill.job import JobSpec
from tidemill.ledger import Ledger
from tidemill.ledger.gate import begun_at
from tidemill.manifest import read_chunk
from tidemill.services.batch import SERVICE as BATCH
from tidemill.store import Store
from tidemill.worker.chunks.jobs import LeasedJob


class Batch(FakeBackend):
    """A queue that knows dependencies."""

    service = BATCH

    def settle(self) -> None:
        """Fail what waits for an array that has failed."""
        for fake in self.arrays:
            for id_ in fake.shape.depends_on:
                other = next(one for one in self.arrays if one.id == id_)
                if "failed" in other.children and not {"waiting", "running"}.intersection(other.children):
                    fake.children = ["failed"] * fake.array.size
                    fake.reasons = dict.fromkeys(range(fake.array.size), "Dependent Job failed")

    def startable(self, job: str) -> list[int]:
        """Numbers of a job's arrays whose dependencies have succeeded."""
        ended = {fake.id for fake in self.arrays if set(fake.children) == {"succeeded"}}
        return [
            number
            for number, fake in enumerate(self.arrays)
            if fake.array.address.job == job and set(fake.shape.depends_on) <= ended and "waiting" in fake.children
        ]

    def start(self, pipeline: Pipeline, job: str, *, fail_items: Sequence[int] = ()) -> int:
        """Start a container for every chunk that may start; returns how many ran items."""
        ran = 0
        for number in self.startable(job):
            fake = self.arrays[number]
            for child, chunk in enumerate(fake.array.chunks):
                lease = OneLease(job, child)
                lease.round, lease.chunk = fake.array.address.round, lambda round_, c=chunk: c  # type: ignore
                known = LeasedJob(pipeline.store, lease)
                if known.ledger.is_cancelled(lease.round) or known.gate() is not None:
                    fake.children[child] = "failed"
                    continue
                items = read_chunk(pipeline.store, job, chunk)
                outcomes = [outcome(i.index, i.uri, i.index in fail_items) for i in items]
                known.ledger.chunk(lease.round, chunk).commit(f"a{child}", outcomes)
                fake.children[child] = "succeeded"
                ran += 1
        return ran


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)
    monkeypatch.setattr(enqueue, "LOOK_SECONDS", 0)
    monkeypatch.setattr("tidemill.client.rounds.rounds.LOOK_SECONDS", 0)
    cloud = Batch()
    return Pipeline(descriptor(max_spec=4), Store.open("memory://"), cloud), cloud


def submit(pipeline: Pipeline, name: str, items: int = 4, **more) -> Job:
    return pipeline.submit(["p"], uris(items), queue="cpu", name=name, chunk_size=2, **more)


def said(status: Status) -> str:
    assert status.note
    return status.note


def test_a_job_depends_on_the_arrays_that_the_other_one_runs(made):
    pipeline, cloud = made
    first = submit(pipeline, "first")
    second = submit(pipeline, "second", after=["first"])
    assert second.spec.spec_version == 4
    assert second.enqueued == 1
    assert cloud.arrays[1].shape.depends_on == [cloud.arrays[0].id]
    status = second.status()
    assert (status.state, said(status)) == ("waiting", f"waits for {first.id} (0 of 4 items)")
    assert pipeline.jobs()[0].state_words == said(status)
    cloud.start(pipeline, first.id, fail_items=[1])
    assert begun_at(pipeline.store, second.spec) is None
    assert cloud.start(pipeline, second.id) == 2
    assert second.status().state == "succeeded"
    assert begun_at(pipeline.store, second.spec)


def test_a_job_after_a_complete_one_is_enqueued_at_once(made):
    pipeline, cloud = made
    cloud.start(pipeline, submit(pipeline, "first").id)
    second = submit(pipeline, "second", after=["first"])
    assert cloud.arrays[1].shape.depends_on == ()
    assert begun_at(pipeline.store, second.spec)


def test_what_began_goes_on_when_the_other_job_runs_again(made):
    pipeline, cloud = made
    first = submit(pipeline, "first")
    cloud.start(pipeline, first.id, fail_items=[0])
    second = submit(pipeline, "second", after=["first"])
    first.retry()
    assert second.status().waits_for == []
    assert cloud.start(pipeline, second.id) == 2


def test_containers_that_start_too_early_run_nothing_and_are_enqueued_again(made):
    pipeline, cloud = made
    first = submit(pipeline, "first")
    second = submit(pipeline, "second", after=["first"])
    cloud.start(pipeline, first.id, fail_items=[0])
    first.retry()
    assert cloud.start(pipeline, second.id) == 0
    status = second.status()
    assert status.state == "waiting"
    assert not status.chunks.lost
    assert "(3 of 4 items)" in said(status)
    assert f"tidemill wait {second.id}" in said(status)
    cloud.start(pipeline, first.id)

    def fleet(status):
        cloud.start(pipeline, second.id)

    assert second.wait(poll_seconds=0, on_status=fleet).state == "succeeded"


def test_wait_repairs_the_job_that_another_waits_for(made):
    pipeline, cloud = made
    first = submit(pipeline, "first")
    second = submit(pipeline, "second", after=["first"])
    third = submit(pipeline, "third", after=["second"])
    cloud.run(pipeline, first.id, skip_chunks=[1])
    cloud.settle()
    cloud.settle()
    status = third.status()
    assert status.state == "lost"
    assert "waits for second" in said(status)

    def fleet(status):
        for job in (first, second, third):
            cloud.start(pipeline, job.id)
        cloud.settle()

    assert third.wait(poll_seconds=0, on_status=fleet).state == "succeeded"
    assert all(job.status().state == "succeeded" for job in (first, second))


def test_without_repair_waiting_ends_with_what_to_do(made):
    pipeline, cloud = made
    first = submit(pipeline, "first")
    second = submit(pipeline, "second", after=["first"])
    cloud.run(pipeline, first.id, skip_chunks=[1])
    status = second.wait(poll_seconds=0, repair=False)
    assert status.state == "lost"
    assert f"tidemill resume {first.id}" in said(status)


def test_a_lost_job_holds_what_comes_after_it_until_it_is_resumed(made):
    pipeline, cloud = made
    first = submit(pipeline, "first")
    cloud.run(pipeline, first.id, skip_chunks=[1])
    second = submit(pipeline, "second", after=["first"])
    assert second.enqueued == 0
    assert len(cloud.arrays) == 1
    assert (second.resume().note or "").startswith("waits for first")
    first.resume()
    second.resume()
    assert cloud.arrays[-1].shape.depends_on == [cloud.arrays[1].id]


def test_a_cancelled_job_ends_those_after_it(made):
    pipeline, cloud = made
    first = submit(pipeline, "first")
    second = submit(pipeline, "second", after=["first"])
    first.cancel()
    cloud.settle()
    status = second.status()
    assert status.state == "cancelled"
    assert f"{first.id} is cancelled" in said(status)
    assert f"tidemill resume {first.id}" in said(status)
    assert status.continued_by() == f"tidemill resume {second.id}"
    with pytest.raises(CallerError) as refused:
        second.resume()
    assert f"tidemill resume {first.id}" in refused.value.fix
    first.resume()
    assert second.resume().chunks == 2
    cloud.start(pipeline, first.id)
    assert cloud.start(pipeline, second.id) == 2
    assert second.status().state == "succeeded"


def test_failures_end_a_job_that_runs_after_success(made):
    pipeline, cloud = made
    first = submit(pipeline, "first")
    second = submit(pipeline, "second", after_success=["first"])
    cloud.start(pipeline, first.id, fail_items=[3])
    assert cloud.start(pipeline, second.id) == 0
    status = second.status()
    assert status.state == "cancelled"
    assert f"1 of the 4 items of {first.id} failed" in said(status)
    first.retry()
    assert second.resume().chunks == 2
    cloud.start(pipeline, first.id)
    cloud.start(pipeline, second.id)
    assert second.status().state == "succeeded"


def test_a_job_that_has_expired_never_lets_another_begin(made, monkeypatch):
    pipeline, _cloud = made
    first = submit(pipeline, "first")
    second = submit(pipeline, "second", after=["first"])
    there = Ledger.listing
    gone = f"{first.id}"

    def listing(ledger):
        if ledger.job == gone:
            raise StoreMissingError("gone")
        return there(ledger)

    monkeypatch.setattr(Ledger, "listing", listing)
    status = second.status()
    why = f"{first.id} is not in the store any more, and this job runs after it. Submit it again."
    assert said(status) == f"stopped: {why}"
    # No command brings back what it waits for.
    assert (status.state, status.final, status.continued_by()) == ("cancelled", True, None)
    assert "continue" not in status.facts() | facts(second, status, second.summary(status))
    with pytest.raises(CallerError) as refused:
        second.resume()
    assert str(refused.value) == (
        f"{second.id} runs after {first.id}, and {first.id} is not in the store any more. Submit it again without that."
    )


AN_ID = "a job's id, <name>-<8 hex digits>, or its name. Give the id that `tidemill submit` printed."
RETRY = "`tidemill retry FIRST --failed` first, or leave it out."
NO_JOB = "in memory:///jobs. Check the name with `tidemill jobs`; it may be a job of another pipeline."
BEFORE = {
    "nothing": lambda p, c: None,
    "cancelled": lambda p, c: submit(p, "first").cancel(),
    "failed": lambda p, c: c.start(p, submit(p, "first").id, fail_items=[0]),
    "runs": lambda p, c: submit(p, "first"),
    "itself": lambda p, c: submit(p, "second"),
    "many": lambda p, c: [submit(p, f"j{n}") for n in range(21)],
}


@pytest.mark.parametrize(
    ("before", "more", "what", "said"),
    [
        ("nothing", {"after": ["none"]}, "after", f"after is 'none': There is no job 'none' {NO_JOB}"),
        (
            "nothing",
            {"after_success": [""]},
            "after_success",
            f"after_success is '': job is ''; it must be {AN_ID}",
        ),
        (
            "cancelled",
            {"after": ["first"]},
            "after",
            "after is 'first', and FIRST is cancelled. `tidemill resume FIRST` first, or leave it out.",
        ),
        (
            "failed",
            {"after_success": ["first"]},
            "after_success",
            f"after_success is 'first', and 1 of the 4 items of FIRST failed. {RETRY}",
        ),
        (
            "itself",
            {"after": ["second"]},
            "after",
            "after is 'second'; it must be another job. Give the id of an earlier job of this name.",
        ),
        (
            "runs",
            {"after": "first"},
            "after",
            "after is 'first'; it must be a list of ids or names of jobs. Write ['first'].",
        ),
        (
            "many",
            {"after": [f"j{n}" for n in range(21)]},
            "after",
            "after names 21 jobs; it must be at most 20. Let a job in between wait for some of them.",
        ),
        (
            "many",
            {"after": [f"j{n}" for n in range(20)], "after_success": ["j20"]},
            "after",
            "after names 21 jobs; it must be at most 20. Let a job in between wait for some of them.",
        ),
    ],
)
def test_what_can_never_start_is_refused_at_once(made, before, more, what, said):
    pipeline, cloud = made
    BEFORE[before](pipeline, cloud)
    arrays = len(cloud.arrays)
    with pytest.raises(CallerError) as refused:
        submit(pipeline, "second", items=6, **more)
    assert refused.value.what == what
    first = next((row.job for row in pipeline.jobs() if row.job.startswith("first-")), "")
    assert str(refused.value) == said.replace("FIRST", first)
    assert len(cloud.arrays) == arrays


def test_some_failures_of_a_running_job_refuse_after_success(made):
    pipeline, _cloud = made
    first = submit(pipeline, "first")
    ledger = Ledger(pipeline.store, first.id)
    ledger.chunk(0, 0).commit("a", [outcome(0, "x", True), outcome(1, "y", False)])
    with pytest.raises(CallerError, match="1 items of") as refused:
        submit(pipeline, "second", after_success=["first"])
    assert f"tidemill retry {first.id} --failed" in refused.value.fix


def test_an_older_stack_refuses_it(made):
    pipeline, _ = made
    submit(pipeline, "first")
    older = Pipeline(descriptor(max_spec=3), pipeline.store, pipeline.site.backend("cpu"))
    with pytest.raises(CallerError, match="up to version 3") as refused:
        submit(older, "second", after=["first"])
    assert "leave `after` out" in refused.value.fix


def test_a_job_without_others_keeps_the_id_and_the_version_of_before(made):
    pipeline, _ = made
    spec = submit(pipeline, "first").spec
    assert spec.spec_version == 1
    assert JobSpec.model_validate_json(spec.model_dump_json(exclude={"after"})).after == []


def test_of_a_submit_that_died_between_arrays_none_is_enqueued_too_early(made, monkeypatch):
    pipeline, cloud = made
    monkeypatch.setattr(Batch, "service", replace(BATCH, array_chunks=2))
    cloud.refuse_after = 1
    with pytest.raises(ConnectionAbortedError):
        submit(pipeline, "first", items=8)
    cloud.refuse_after = None
    second = submit(pipeline, "second", after=["first"])
    assert second.enqueued == 0
    first = pipeline.job("first")
    cloud.start(pipeline, first.id)
    assert second.status().state == "lost"

    def fleet(status):
        cloud.start(pipeline, first.id)
        cloud.start(pipeline, second.id)

    assert second.wait(poll_seconds=0, on_status=fleet).state == "succeeded"


def test_a_login_that_may_only_look_sees_why_nothing_begins(made, monkeypatch):
    pipeline, cloud = made
    first = submit(pipeline, "first")
    second = submit(pipeline, "second", after=["first"])
    denied = StoreDeniedError("denied")
    monkeypatch.setattr(Store, "create", lambda *_: (_ for _ in ()).throw(denied))
    assert said(second.status()) == f"waits for {first.id} (0 of 4 items)"
    monkeypatch.undo()
    first.cancel()
    monkeypatch.setattr(Store, "create", lambda *_: (_ for _ in ()).throw(denied))
    assert said(second.status()) == f"can never begin: {first.id} is cancelled"
    monkeypatch.undo()
    first.resume()
    cloud.start(pipeline, first.id)
    monkeypatch.setattr(Store, "create", lambda *_: (_ for _ in ()).throw(denied))
    assert second.status().state == "waiting"


def test_a_job_whose_other_jobs_queue_is_gone_says_so(made):
    pipeline, cloud = made
    submit(pipeline, "first")
    second = pipeline.submit(["p"], uris(2), queue="gpu", name="second", after=["first"])
    left = pipeline.descriptor.model_copy(update={"queues": {"gpu": pipeline.descriptor.queues["gpu"]}})
    status = Pipeline(left, pipeline.store, cloud).job(second.id).status()
    assert status.state == "lost"
    assert "queue 'cpu'" in said(status)
