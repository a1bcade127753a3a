"""Mutant: a notice gives a program ten seconds, however much is left."""

from tidemill.worker.item_state import ItemState


def apply() -> None:
    ItemState.limits = lambda self, limits: limits  # type: ignore[method-assign]
