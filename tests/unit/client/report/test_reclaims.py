"""What the report says of reclaims, by machine. tests/worker/test_ends.py has the workers that write these markers."""

from __future__ import annotations

import json

import pytest

from tests.unit.report_jobs import made_job
from tidemill import layout
from tidemill.client.report import reclaims
from tidemill.client.report.page import page_of
from tidemill.errors import DamagedError
from tidemill.layout import ChunkKey
from tidemill.ledger.digest import RanOn, RunFacts, interrupted
from tidemill.store import Store

LARGE, SMALL = RanOn("i-1", "c7i.4xlarge", "b", "spot"), RanOn("i-2", "c7i.large", "a", "spot")


def facts(machine: RanOn, held: float, worked: float) -> RunFacts:
    return RunFacts("2026-11-22T09:00:00+00:00", machine, 8, held, 0.0, 0.0, worked, 0)


def mark(store: Store, job: str, chunk: int, data: bytes) -> None:
    store.put(layout.drained(ChunkKey(job, 0, chunk), "x"), data)


def told(machine: RanOn, held: float, worked: float) -> bytes:
    return json.dumps(interrupted(facts(machine, held, worked))).encode()


def test_reclaims_are_counted_by_machine_with_what_they_lost():
    made = made_job(reclaims=3)
    store = made.job._watched.site.store
    for chunk in range(10, 14):
        mark(store, made.job.id, chunk, told(LARGE, 3600, 2700))
    mark(store, made.job.id, 20, told(SMALL, 720, 9999))
    report = made.job.report()
    assert [(each.type, each.market, each.reclaims, each.held_hours, each.lost_hours) for each in report.reclaimed] == [
        ("c7i.4xlarge", "spot", 4, 4.0, 1.0),
        (None, None, 3, 0.0, 0.0),
        ("c7i.large", "spot", 1, 0.2, 0.0),
    ]
    assert sum(each.reclaims for each in report.reclaimed) == report.reclaims
    assert "Without an outcome" in page_of(report)


def test_of_many_markers_some_are_read_and_scaled(monkeypatch):
    monkeypatch.setattr(reclaims, "MOST_READ", 5)
    store = Store.open("memory://")
    for chunk in range(20):
        mark(store, "j", chunk, told(LARGE, 360, 0))
    asked: list[str] = []
    get = store.get_range
    monkeypatch.setattr(store, "get_range", lambda name, *rest: (asked.append(name), get(name, *rest))[1])
    [found] = reclaims.read_reclaims(store, list(store.entries(layout.of_round("j", 0, "drained"))))
    assert (found.reclaims, found.held_hours, found.lost_hours) == (20, 2.0, 2.0)
    assert len(asked) == 5


def test_a_damaged_marker_is_named():
    made = made_job(48, 24)
    mark(made.job._watched.site.store, made.job.id, 1, b"{nonsense")
    with pytest.raises(DamagedError, match="drained"):
        made.job.report()


def test_a_job_without_reclaims_has_none():
    report = made_job(48, 24).job.report()
    assert report.reclaimed == []


def test_what_reclaims_ended_was_paid_and_lessens_what_spot_saves():
    made = made_job(48, 24)
    before = made.job.report().cost
    assert before is not None
    line = next(line for line in before.lines if line.market == "spot")
    for chunk in range(10, 14):
        mark(made.job._watched.site.store, made.job.id, chunk, told(RanOn("i-9", line.type, "b", "spot"), 3600, 2700))
    after = made.job.report().cost
    assert after is not None
    now = next(one for one in after.lines if (one.type, one.market) == (line.type, "spot"))
    assert now.slot_hours == pytest.approx(line.slot_hours + 4, rel=0.001)
    assert now.high == pytest.approx(line.high / line.slot_hours * now.slot_hours, rel=0.05)
    # On-Demand machines are not taken back: the hour without an outcome would not have been needed.
    assert now.on_demand == pytest.approx((line.on_demand or 0) / line.slot_hours * (now.slot_hours - 1), rel=0.05)
    assert after.high > before.high
