"""Pauses between the attempts of an item."""

from tidemill.worker.items.run_item import pause_before


def test_an_attempt_waits_for_room_on_a_full_disk():
    """Three of them would be over in two seconds otherwise."""
    assert [pause_before(n) < 1 for n in (1, 2)] == [True, True]
    assert all(30 <= pause_before(n, "scratch") <= 60 for n in (1, 2, 3))
