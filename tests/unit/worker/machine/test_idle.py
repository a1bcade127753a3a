"""When an idle worker leaves, on the test's clock."""

import pytest

from tests.unit.worker.fakes import Clock
from tidemill.worker.machine.idle import DRAIN_SECONDS, EMPTY_PULLS, IdlePolicy


def empty(idle: IdlePolicy, pulls: int = EMPTY_PULLS) -> None:
    for _ in range(pulls):
        idle.pulled(empty=True)


def test_it_leaves_after_the_time_and_some_empty_pulls(clock: Clock):
    idle = IdlePolicy(300, clock)
    clock.now += 300
    empty(idle)
    assert idle.leave()


def test_one_empty_pull_is_not_idle(clock: Clock):
    idle = IdlePolicy(300, clock)
    clock.now += 10_000
    for _ in range(EMPTY_PULLS - 1):
        idle.pulled(empty=True)
        assert not idle.leave()


def test_many_quick_pulls_are_not_idle(clock: Clock):
    idle = IdlePolicy(300, clock)
    empty(idle, 1000)
    clock.now += 299
    assert not idle.leave()


def test_an_idle_check_races_with_new_work(clock: Clock):
    idle = IdlePolicy(300, clock)
    clock.now += 300
    empty(idle)
    assert idle.leave()
    # It did not go yet, and the pull that was under way brings a chunk.
    idle.pulled(empty=False)
    assert not idle.leave()
    empty(idle)
    assert not idle.leave()


def test_the_time_counts_from_the_end_of_the_work(clock: Clock):
    idle = IdlePolicy(300, clock)
    idle.pulled(empty=False)
    clock.now += 4 * 3600
    # With a slot free it goes on pulling beside the work.
    empty(idle)
    idle.busy()
    assert not idle.leave()
    clock.now += 299
    empty(idle)
    assert not idle.leave()
    clock.now += 1
    assert idle.leave()


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_an_idle_time_must_be_more_than_zero(clock: Clock, seconds: float):
    with pytest.raises(ValueError, match="more than 0"):
        IdlePolicy(seconds, clock)


def test_nothing_is_leased_that_would_outlive_the_machine(clock: Clock):
    idle = IdlePolicy(300, clock, machine_until=clock.now + 7200 + DRAIN_SECONDS)
    clock.now += 3600
    assert idle.may_lease(3600)
    clock.now += 1
    assert not idle.may_lease(3600)
    assert idle.may_lease(3599)
    clock.now += 3599
    assert idle.may_lease()
    clock.now += 1
    assert not idle.may_lease()


def test_what_no_machine_outlives_runs_in_the_first_half_of_one(clock: Clock):
    idle = IdlePolicy(300, clock, machine_until=clock.now + 7200 + DRAIN_SECONDS)
    assert idle.may_lease(1e6)
    clock.now += 3600
    assert idle.may_lease(1e6)
    clock.now += 1
    assert not idle.may_lease(1e6)


def test_a_worker_that_is_started_again_goes_by_its_machines_life(clock: Clock):
    """The machine has a life of 24 hours, and six hours of it are left: an item of eight would not end in time."""
    until, since = clock.now + 6 * 3600 + DRAIN_SECONDS, clock.now - 18 * 3600
    assert not IdlePolicy(300, clock, until, since).may_lease(8 * 3600)
    assert IdlePolicy(300, clock, until, since).may_lease(5 * 3600)


def test_a_machine_without_a_limit(clock: Clock):
    assert IdlePolicy(300, clock).may_lease(1e9)
