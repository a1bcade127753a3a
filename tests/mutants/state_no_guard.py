"""Mutant: nobody counts attempts that save nothing."""

from tidemill.worker import item_state


def apply() -> None:
    item_state.without_progress = lambda newest_first, round_, run: []
