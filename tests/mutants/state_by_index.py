"""Mutant: items of two jobs are paired by their place."""

from tidemill.worker import item_state


def apply() -> None:
    item_state.pair = lambda store, job, item: item.index
