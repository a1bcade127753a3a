"""Small fleets on virtual time: what worker and reconciler decide together. It is a model: it proves nothing of GCP."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.fleet_world import DEFAULTS, OURS, PLAIN, RECONCILE_SECONDS, Load, Result, World, log_normal

BOOT = 90.0
NOTICED = 60.0 + 120.0 + 60.0
"""The longest until the autoscaler has seen a message: sample, delay, its own look."""


def run(load: Load, policy=OURS) -> Result:
    return World(policy, load).run()


@pytest.fixture(scope="module")
def busy() -> Load:
    """A stockout at 120 of 500 machines while 15 % an hour are preempted."""
    return Load(log_normal(6000), machines=500, reclaimed_an_hour=0.15, stockout=(0.05, 7200, 120))


def test_a_fleet_loses_nothing_and_goes_back_to_zero(busy):
    result = run(busy)
    assert (result.lost, result.finished_again, result.busy_removed, result.target) == (0, 0, 0, 0)
    assert result.reclaims > 50
    assert result.zero_at - result.done_at < 1800


def test_the_plain_autoscaler_kills_busy_machines(busy):
    result = run(busy, PLAIN)
    assert result.busy_removed > 0
    assert result.lost == 0


def test_a_lease_lost_after_an_hour_runs_items_twice(busy):
    assert run(busy, DEFAULTS).finished_again > 0


def test_a_stockout_that_leaves_machines_wanted_for_ever():
    """120 machines do all the work; the 380 that never came are no longer wanted."""
    load = Load([60.0] * 4000, machines=500, stockout=(0.0, 40 * 3600, 120))
    result = run(load)
    assert (result.lost, result.most, result.target) == (0, 120, 0)
    assert result.zero_at - result.done_at < 1800
    # Without a reconciler they stay wanted.
    assert run(replace(load, reconciler_down=(0.0, math.inf))).target == 500


def test_a_reconciler_that_was_down_for_an_hour():
    load = Load([60.0] * 500, machines=50, reclaimed_an_hour=0.3, reconciler_down=(300.0, 3900.0))
    result = run(load)
    assert (result.lost, result.busy_removed, result.target) == (0, 0, 0)


def test_a_job_that_comes_when_all_have_just_powered_off():
    """It waits for the reconciler, once, because machines that are off count in the group's size."""
    load = Load([60.0] * 20, machines=20)
    alone = run(load)
    ended = alone.done_at + load.idle + 30
    result = run(replace(load, items=[60.0] * 40, later=[(ended, 20)]))
    assert result.lost == 0
    assert result.done_at - ended < RECONCILE_SECONDS + NOTICED + BOOT + 60 * 2 + 60


def test_warm_machines_stay_and_start_at_once():
    cold = run(Load([60.0] * 5, machines=5, later=[(7200.0, 5)]))
    warm = run(Load([60.0] * 5, machines=5, warm=2, later=[(7200.0, 5)]))
    assert cold.first_item_at - 7200 > BOOT
    assert warm.first_item_at - 7200 < 1
    assert warm.target == 2
