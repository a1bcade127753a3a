"""Mutant: one look at a state folder decides, whoever is writing there."""

from tidemill.worker.item_state import ItemState


def apply() -> None:
    ItemState._rests = lambda self, there, before: True  # type: ignore[method-assign]
