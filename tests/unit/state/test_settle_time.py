"""How long a state folder has to rest: intervals of 60 s; looks as often as the settle time says."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tidemill.state.settle_time import SettleTime


def rests_found(longest_rest: float, until: float = 1000.0) -> list[float]:
    """When a program that never rests longer is found at rest."""
    settle, now, due, found = SettleTime(60, 0.0), 0.0, 60.0, list[float]()
    while (now := now + settle.seconds) < until:
        rests = settle.seconds < longest_rest
        if now < due and rests:
            settle.rested(now)
        elif now >= due and not rests:
            settle.restless(now)
        elif rests:
            found.append(now)
            due = now + 60
    return found


def test_two_seconds_when_the_program_rests():
    settle = SettleTime(60, 0.0)
    settle.restless(59.0)
    assert settle.seconds == 2.0
    settle.rested(60.0)
    settle.restless(119.0)
    assert settle.seconds == 2.0


@pytest.mark.parametrize(("rest", "first"), [(1.5, 60), (0.3, 90), (0.15, 105)])
def test_as_long_as_a_program_rests_that_never_rests_longer(rest, first):
    """It takes a quarter of an interval for each half, and is near the right time from then on."""
    found = rests_found(rest)
    assert first <= found[0] <= first + 4
    assert max(b - a for a, b in pairwise(found)) <= 60 + 15 + 4


def test_a_program_that_becomes_calm_must_rest_for_two_seconds_again():
    settle = SettleTime(60, 0.0)
    for now in range(60, 300, 2):
        settle.restless(now)
    assert settle.seconds == 0.1
    for now in range(300, 305):
        settle.rested(now)
    assert settle.seconds == 2.0


def test_short_intervals_have_shorter_times():
    assert SettleTime(1, 0.0).seconds == 0.25
