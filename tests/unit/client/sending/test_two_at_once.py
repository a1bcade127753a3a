"""Submits with `changed` beside another submit or a removal that acts between two of their writes. What this cannot
prove: two processes in the middle of one write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.sending.shared_jobs import Bench
from tidemill import layout
from tidemill.client import Job
from tidemill.client.housekeeping.removal import Removal
from tidemill.errors import CallerError, StoreMissingError, TidemillError
from tidemill.ledger import Ledger, Outcome
from tidemill.store import Store


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.write(a="1", b="2", c="3", d="4")
    return made


def values(job: Job) -> dict[str, Any]:
    return {Path(outcome.uri).name: outcome.value for outcome in job.results()}


def interfering(monkeypatch: pytest.MonkeyPatch, at: int, other: Callable[[], object]) -> Iterator[bool]:
    """Let another act before the `at`-th write to a store; yields, and then yields if there was so many."""
    left, acted = [at], [False]

    def first(write: Callable[..., Any]) -> Callable[..., Any]:
        def after_the_other(*given: Any, **named: Any) -> Any:
            left[0] -= 1
            if not left[0]:
                acted[0] = True
                with monkeypatch.context() as plain:
                    plain.setattr(Store, "put", put)
                    plain.setattr(Store, "create", create)
                    plain.setattr(Store, "delete", delete)
                    other()
            return write(*given, **named)

        return after_the_other

    put, create, delete = Store.put, Store.create, Store.delete
    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", first(put))
        patch.setattr(Store, "create", first(create))
        patch.setattr(Store, "delete", first(delete))
        yield True
    yield acted[0]


class KilledError(BaseException):
    """The process dies here."""


def dying(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Submit; the process dies before it writes the spec."""
    create = Store.create

    def none(store: Store, name: str, data: bytes) -> Any:
        if name.endswith("/job.json"):
            raise KilledError
        return create(store, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "create", none)
        with pytest.raises(KilledError):
            bench.submit(changed=True)


@pytest.mark.parametrize("dies", [False, True], ids=["whole", "dies before its spec"])
def test_two_submits_that_saw_other_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, dies: bool) -> None:
    """The one looks before an input changes, the other after it and between any two of the first one's writes. At the
    latest when the command is typed again, each item has the value that it would have now."""
    for at in range(1, 30):
        bench = Bench(tmp_path / str(at))
        bench.write(a="1", b="2", c="3", d="4")
        bench.job()
        bench.write(b="two")

        def other(bench: Bench = bench) -> None:
            bench.write(c="three")
            if dies:
                dying(bench, monkeypatch)
            else:
                bench.job(changed=True)

        beside = interfering(monkeypatch, at, other)
        next(beside)
        job = bench.submit(changed=True)
        acted = next(beside)
        bench.run(job)
        last = bench.job(changed=True)
        expected = {"a": "1", "b": "two", "c": "three" if acted else "3", "d": "4"}
        assert {name: value[1] for name, value in values(last).items()} == expected, at
        if not acted:
            assert at > 6
            return
    raise AssertionError("more writes than expected")


def changed_before_a_removal(folder: Path) -> tuple[Bench, Job, Removal]:
    """A job whose removal is planned, and an input of which has changed since."""
    bench = Bench(folder)
    bench.write(a="1", b="2", c="3", d="4")
    first = bench.job()
    removal = bench.pipeline.housekeeping.removal(first.id)
    bench.write(b="two")
    return bench, first, removal


def test_a_removal_beside_a_submit_that_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The removal was planned before; it is carried out between any two writes of the submit."""
    for at in range(1, 30):
        bench, _, removal = changed_before_a_removal(tmp_path / str(at))

        def other(bench: Bench = bench, removal: Removal = removal) -> None:
            try:
                removal.carry_out()
            except TidemillError as error:
                bench.said.append(str(error))

        beside = interfering(monkeypatch, at, other)
        next(beside)
        job = bench.submit(changed=True)
        acted = next(beside)
        bench.run(job)
        check_whole(bench, job, at)
        if not acted:
            assert at > 6
            return
    raise AssertionError("more writes than expected")


def test_a_submit_that_shares_beside_a_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The submit comes between any two changes of the removal. One of the two gives way, with a sentence."""
    for at in range(1, 30):
        bench, first, removal = changed_before_a_removal(tmp_path / str(at))
        refused: list[str] = []

        def other(bench: Bench = bench, first: Job = first, refused: list[str] = refused) -> None:
            if not bench.pipeline.store.exists(layout.spec(first.id)):
                refused.append("all but the note of the removal has gone")
            try:
                bench.job(changed=True)
            except StoreMissingError as error:
                refused.append(str(error))

        beside = interfering(monkeypatch, at, other)
        next(beside)
        try:
            removal.carry_out()
        except CallerError as error:
            refused.append(str(error))
            assert len(list(first.results())) == 4
        acted = next(beside)
        assert len(refused) == acted, at
        check_whole(bench, bench.job(changed=True), at)
        if not acted:
            assert at > 1
            return
    raise AssertionError("more changes than expected")


def test_an_attempt_that_comes_back_after_the_removal(tmp_path: Path) -> None:
    """Its record is none of the job that the same command makes anew."""
    bench = Bench(tmp_path)
    bench.write(a="1", b="2")
    job = bench.submit()
    late = Ledger(bench.pipeline.store, job.id, job.spec.manifest)
    part = late.chunk(0, next(iter(late.rounds()[0].enqueued())))
    job.cancel()
    bench.pipeline.housekeeping.removal(job.id).carry_out()
    part.commit(
        "a1", [Outcome(index=n, uri=uri, status="succeeded", value="old") for n, uri in enumerate(bench.paths())]
    )
    assert bench.pipeline.jobs() == []
    for changed in (False, True):
        again = bench.job(changed=changed)
        assert again.id != job.id
        assert {name: value[1] for name, value in values(again).items()} == {"a": "1", "b": "2"}
    assert bench.ran == bench.paths()


def check_whole(bench: Bench, job: Job, at: int) -> None:
    found = {name: value[1] for name, value in values(job).items()}
    assert found == {"a": "1", "b": "two", "c": "3", "d": "4"}, (at, bench.said)
    assert job.status().succeeded == 4, at
