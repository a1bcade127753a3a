"""The worker's events, which the stack's metrics count: sums over them must be exact whatever happens to workers."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.aws.monitoring.metrics import COUNTED, DIMENSION
from components.gcp.monitoring.line_metrics import COUNTED as ON_GCP
from tests.unit.worker.fakes import Instant, Interrupted, worker_of
from tidemill.errors import StoreError
from tidemill.ledger import Outcome
from tidemill.ledger.chunk import ChunkLedger
from tidemill.ledger.first_item import first_item_seconds
from tidemill.worker import __main__ as program
from tidemill.worker.loop import Worker
from tidemill.worker.output import also_to, serve

EXIT_REFUSED = 72
EXIT_STORE = 71


class Failing(Instant):
    """Runs nothing: item 1 fails, every other succeeds."""

    def run(self, tasks: Any, slot: Any, done: Any) -> None:
        for task in tasks:
            failed: dict[str, Any] = {"status": "failed", "reason": "exit"}
            how: dict[str, Any] = failed if task.item.index == 1 else {"status": "succeeded"}
            done(Outcome(index=task.item.index, uri=task.item.uri, wall_seconds=0.25, **how))


@pytest.fixture
def said() -> Iterator[list[dict[str, Any]]]:
    lines: list[dict[str, Any]] = []
    also_to(lambda batch: lines.extend(line for line, _ in batch))
    serve("cpu")
    yield lines
    serve("")
    also_to(None)


@pytest.fixture
def signals() -> Iterator[None]:
    """`main` takes over the process's signals."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def events(lines: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [line for line in lines if line.get("event") == name]


def test_each_chunk_is_counted_once_with_its_queue(said: list[dict[str, Any]], tmp_path: Path):
    with worker_of(Worker, Failing, ["a", "b", "c"], 2, tmp_path) as (worker, ledger):
        worker.run()
    counted = events(said, "chunk")
    assert [(each["chunk"], each["items"], each["failed"]) for each in counted] == [(0, 2, 1), (1, 1, 0)]
    assert {(each["queue"], each["job"]) for each in counted} == {("cpu", ledger.job)}
    assert [each["wall_ms"] for each in counted] == [500, 250]
    assert all(each["held_ms"] >= 0 for each in counted)
    [first] = events(said, "first_item")
    assert (first["queue"], first["job"]) == ("cpu", ledger.job)
    assert first["waited_ms"] == 1000 * (first_item_seconds(ledger.store, ledger.job) or 0)
    [failed] = events(said, "item")
    assert (failed["queue"], failed["status"], failed["item"]) == ("cpu", "failed", 1)


def test_the_attempt_that_loses_is_not_counted(said: list[dict[str, Any]], tmp_path: Path, monkeypatch: Any):
    commit = ChunkLedger.commit

    def late(self: ChunkLedger, attempt: str, outcomes: list[Outcome], **kwargs: Any) -> Any:
        commit(self, "another", outcomes)
        return commit(self, attempt, outcomes, **kwargs)

    monkeypatch.setattr(ChunkLedger, "commit", late)
    with worker_of(Worker, Instant, ["a"], 1, tmp_path) as (worker, _):
        worker.run()
    assert events(said, "chunk") == []
    assert [line["items"] for line in said if "another attempt" in line["message"]] == [1]


def test_a_notice_is_one_reclaim(said: list[dict[str, Any]], tmp_path: Path):
    with worker_of(Worker, Interrupted, ["a", "b"], 2, tmp_path) as (worker, _):
        worker.run()
    assert [(each["queue"], each["chunks"]) for each in events(said, "reclaim")] == [("cpu", 1)]


def test_a_worker_whose_store_fails_says_its_exit_code(said: list[dict[str, Any]], tmp_path: Path, monkeypatch: Any):
    def broken(*_: Any, **__: Any) -> Any:
        raise StoreError("the store does not answer")

    monkeypatch.setattr(ChunkLedger, "commit", broken)
    with worker_of(Worker, Instant, ["a"], 1, tmp_path) as (worker, _):
        worker.run()
    assert [(each["code"], each["queue"]) for each in events(said, "worker_error")] == [(EXIT_STORE, "cpu")]


@pytest.mark.usefixtures("signals")
def test_a_worker_that_cannot_start_is_an_error(said: list[dict[str, Any]]):
    assert program.main({}) == EXIT_REFUSED
    assert [each["code"] for each in events(said, "worker_error")] == [EXIT_REFUSED]


@pytest.mark.usefixtures("signals")
def test_a_bug_is_an_error_and_still_raised(said: list[dict[str, Any]], monkeypatch: Any):
    def bug(*_: Any) -> Any:
        raise KeyError("x")

    monkeypatch.setattr(program, "_place", bug)
    with pytest.raises(KeyError):
        program.main({"TIDEMILL_STORE": "memory://", "TIDEMILL_QUEUE": "cpu"})
    assert [(each["code"], each["queue"]) for each in events(said, "worker_error")] == [(1, "cpu")]


def test_the_stacks_filters_count_these_lines(said: list[dict[str, Any]], tmp_path: Path):
    """The filters of AWS on the worker's real lines; those of GCP ask for the same fields."""
    with worker_of(Worker, Failing, ["a", "b", "c"], 2, tmp_path) as (worker, _):
        worker.run()
    with worker_of(Worker, Interrupted, ["a"], 1, tmp_path / "two") as (worker, _):
        worker.run()
    sums: dict[str, float] = {}
    for counted in COUNTED.values():
        wanted = re.fullmatch(r'\{ \$\.event = "(\w+)" \}', counted.pattern)
        assert wanted
        for line in events(said, wanted[1]):
            assert line[DIMENSION] == "cpu"
            value = line[counted.value[2:]] if counted.value.startswith("$.") else counted.value
            sums[counted.name] = sums.get(counted.name, 0) + float(value)
    assert sums.pop("FirstItemWait") >= 0
    assert sums == {"Items": 3, "FailedItems": 1, "Reclaims": 1}
    asked = {re.findall('"(.*)"', counted.pattern)[0] for counted in COUNTED.values()}
    assert {each.event for each in ON_GCP.values()} == asked
