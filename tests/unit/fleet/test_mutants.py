"""On GCP too: with a safeguard removed, the figure that it guards changes. The fleet is the model of
benchmarks/fleet_world.py, the client's cloud that of every_cloud.py: neither proves anything of GCP."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.fleet_world import OURS, Load, Result, World
from tests.components import test_gcp_reconciler_decide as pictures
from tests.mutants import jobs, reconciler
from tests.unit.client_fakes import uris
from tests.unit.every_cloud import DyingError, GcpWorld
from tidemill.client.rounds import deliveries

DAY = 86_400.0
MINUTES = [60.0] * 40
"""Items of a minute: twenty at first, twenty when all is done and over."""


@pytest.fixture(autouse=True)
def grown_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "SUBMIT_GRACE_SECONDS", -1)


def run(load: Load) -> Result:
    return World(OURS, load).run(longest=DAY)


# ---- the fleet ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mutant", [None, reconciler.never_there_stays])
def test_what_never_came_is_made_for_nothing_later_unless_it_is_removed(mutant):
    """Two of fifty came. The others take their place one by one, find nothing to do, and are billed for it."""
    result = run(Load([60.0] * 300, machines=50, stockout=(0.0, DAY, 2)))
    assert (result.zero_at - result.done_at < 1800) == (mutant is None)


@pytest.mark.parametrize(("mutant", "lost"), [(None, 0), (reconciler.powered_off_stays, 20)])
def test_work_that_comes_later_starts_only_where_powered_off_machines_are_removed(mutant, lost):
    load = Load(MINUTES, machines=20, later=[(7200.0, 20)])
    assert run(load).lost == lost


@pytest.mark.parametrize("mutant", [None, jobs.leave_at_once])
def test_a_worker_that_left_at_its_first_empty_pull_is_missed(mutant):
    """The next items come while it would still have been there."""
    first = run(Load(MINUTES[:20], machines=20)).done_at
    result = run(Load(MINUTES, machines=20, later=[(first + 120, 20)]))
    assert (result.done_at - first - 120 < 100) == (mutant is None)


@pytest.mark.parametrize("mutant", [None, reconciler.busy_removed])
def test_no_busy_machine_is_removed_unless_what_is_up_passes_for_absent(mutant):
    """Buildkite 1399: lowering a fleet's size kills busy machines. The tail has fewer items than machines."""
    load = Load([60.0] * 40 + [3600.0] * 10, machines=50)
    assert (run(load).busy_removed == 0) == (mutant is None)


def test_without_the_rung_the_test_of_a_dry_market_fails(monkeypatch):
    pictures.test_spot_that_never_escalates()
    reconciler.rung_stays_closed(monkeypatch)
    with pytest.raises(AssertionError):
        pictures.test_spot_that_never_escalates()


# ---- the client -----------------------------------------------------------------------------------------------------


def submitted(world: GcpWorld):
    command = ["python3", "features.py", "{uri}"]
    return world.pipeline.submit(command, uris(4), queue="cpu", name="tiles", chunk_size=1)


@pytest.mark.parametrize(("mutant", "lost"), [(None, [1, 3]), (jobs.dead_letters_unseen, [])])
def test_dead_letters_show_lost_deliveries(tmp_path, monkeypatch, mutant, lost):
    world = GcpWorld(tmp_path, monkeypatch)
    job = submitted(world)
    world.work(job.id, lose=[1, 3])
    assert job.status().chunks.lost == lost


@pytest.mark.parametrize(("mutant", "times"), [(None, {1}), (jobs.publishes_forgotten, {1, 2})])
def test_a_broken_submit_is_finished_and_not_repeated(tmp_path, monkeypatch, mutant, times):
    world = GcpWorld(tmp_path, monkeypatch)
    world.pipeline.site.backend("cpu").service = replace(world.pipeline.site.backend("cpu").service, array_chunks=2)
    world.die_after(1)
    with pytest.raises(DyingError):
        submitted(world)
    world.die_after(None)
    job = submitted(world)
    assert set(world.delivered(job.id).values()) == times
