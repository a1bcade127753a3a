"""What `status` says of the state of items. No store is asked; the figures are given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidemill.client.watch.saved_state import summed_up
from tidemill.state import Snapshot
from tidemill.tree import Tree, TreeFile

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def snapshot(size: int, sent: int, seconds: float, kind: str = "snapshot", age: float = 60) -> Snapshot:
    tree, at = Tree((TreeFile("x", size, None, "o"),)), (NOW - timedelta(seconds=age)).isoformat()
    return Snapshot(1, kind, 1, "a", 0, at, tree, ("log",), sent, seconds)  # type: ignore[arg-type]


def test_what_is_saved_is_added_up():
    claim = snapshot(10, 0, 0.0, "claim", age=1)
    found = summed_up([[claim, snapshot(10, 10, 1.0)], [claim], [snapshot(30, 3, 1.0, age=90)]], 120, NOW)
    assert (found.items, found.saved, found.oldest_seconds, found.largest_bytes) == (3, 2, 90, 30)
    assert found.open == ["log"]
    assert found.save_seconds is None
    assert not found.too_large


def test_a_clock_that_jumps_back_makes_no_age_negative():
    found = summed_up([[snapshot(10, 10, 1.0, age=-3600)]], 120, NOW)
    assert found.oldest_seconds == 0


CASES = [(13.6, 120, False), (14, 120, True), (2.4, 30, False), (2.6, 30, True), (99, None, False)]


@pytest.mark.parametrize(("gigabytes", "notice", "too_large"), CASES)
def test_a_state_that_a_notice_is_too_short_for_is_called_that(gigabytes, notice, too_large):
    """At 1 Gbps: 125 MB per second, of which the last snapshot sent a tenth of the state."""
    size = round(gigabytes * 1e9)
    found = summed_up([[snapshot(size, size // 10, size / 10 / 125e6)]], notice, NOW)
    assert found.too_large is too_large
    assert ("too large" in found.facts()) is too_large
