"""A job that meets everything that may go wrong, by a seed. `make bench ONLY=chaos` is the long run. It cannot prove
that S3 and AWS Batch fail in these ways and in no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.batch import NURSERY
from tests.chaos.bucket import KINDS
from tests.chaos.world import KILL_POINTS, Size, World

pytestmark = pytest.mark.namespaces


@pytest.mark.timeout(600)
def test_every_item_has_exactly_one_outcome_whatever_happens(tmp_path: Path) -> None:
    world = World(tmp_path, Size(items=400, chunk_size=10))
    report = world.run()
    assert report.wrong == []
    # The run was as bad as intended.
    assert report.events["submitter killed"] == len(KILL_POINTS)
    assert report.events["given up by the queue"] >= 1
    for event in ("fate kill", "fate reclaim", "fate twice", "skewed clocks", "exit 70", "exit 72"):
        assert report.events[event], event
    assert [kind for kind in KINDS if not report.failures[kind]] == []


@pytest.mark.timeout(600)
def test_functions_live_through_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, Size(items=110, chunk_size=10, function=True))
    world.batch.victim = -1
    world.kill_points = ()
    monkeypatch.setattr(world, "cancel_and_resume", lambda job: None)
    report = world.run()
    assert report.wrong == []
    assert report.events["fate kill"]
    assert report.events["fate reclaim"]


WITHOUT_READ_BACK = f"""
from tests.mutants import no_read_back
from tidemill.store import Store
Store._read_back = no_read_back.believe
{NURSERY}
"""


@pytest.mark.timeout(600)
def test_it_sees_workers_that_believe_that_a_409_is_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path, Size(items=110, chunk_size=5, fault_rate=0.04))
    world.batch.nursery_program = WITHOUT_READ_BACK
    world.batch.victim = -1
    # More than one: a container may be killed before it can believe the answer.
    world.bucket.owed = ["409"] * 7
    # A short run with nothing else in it.
    world.kill_points = ()
    monkeypatch.setattr(world, "cancel_and_resume", lambda job: None)
    monkeypatch.setattr(world, "retry", lambda job: None)
    report = world.run()
    assert any("acknowledged without a record" in wrong for wrong in report.wrong)
    # Lost items were enqueued again, as the check of deliveries must do.
    assert report.items_wrong == 0
