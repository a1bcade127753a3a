"""Which snapshot an attempt begins with, and when it is not worth another one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidemill.state import Snapshot, choose, without_progress
from tidemill.state.choose import no_progress_words
from tidemill.tree import Tree, TreeFile


def snapshot(seq: int, kind: str = "snapshot", origin: int | None = None, round_: int = 0) -> Snapshot:
    origin = seq if origin is None else origin
    tree = Tree((TreeFile("x", origin, None, "o"),))
    return Snapshot(seq, kind, origin, f"a{seq}", round_, "2026-01-01T00:00:00+00:00", tree)  # type: ignore[arg-type]


def test_the_newest_comes_first():
    found = [snapshot(4, "claim", 3), snapshot(3), snapshot(2)]
    assert [one.origin for one in choose(found)] == [3, 2]


@pytest.mark.parametrize(("failures", "first"), [(0, 3), (1, 3), (2, 2), (3, 2)])
def test_two_quick_failures_choose_the_one_before(failures, first):
    newer = [snapshot(4 + n, "failure", 3) for n in range(failures)]
    assert choose([*newer[::-1], snapshot(3), snapshot(2)])[0].origin == first


def test_failures_of_another_round_do_not_count():
    """Before a retry, people correct what was wrong."""
    failures = [snapshot(6, "failure", 2, 1), snapshot(5, "failure", 3, 1), snapshot(4, "failure", 3, 1)]
    found = [*failures, snapshot(3), snapshot(2)]
    assert choose(found)[0].origin == 2
    assert choose([snapshot(7, "claim", 2, 2), *found])[0].origin == 3


def test_the_only_snapshot_is_never_given_up():
    assert [one.origin for one in choose([snapshot(3, "failure", 1), snapshot(2, "failure", 1), snapshot(1)])] == [1]


def test_claims_without_a_snapshot_between_are_no_progress():
    claims = [snapshot(n, "claim", 1) for n in (5, 4, 3, 2)]
    assert [one.seq for one in without_progress([*claims, snapshot(1)], 0, "")] == [2, 3, 4, 5]
    assert len(without_progress([claims[0], snapshot(9, "failure", 1), claims[1]], 0, "")) == 1
    assert without_progress(claims, 1, "") == []


def test_a_clock_that_jumps_back_makes_no_time_negative():
    words = no_progress_words([snapshot(2, "claim"), snapshot(3, "claim")], datetime(2025, 12, 31, tzinfo=UTC))
    assert "0 s, 0 s" in words
