"""Mutant: one look at a state folder decides, whoever is writing there."""

from tidemill.state import WatchedState


def apply() -> None:
    WatchedState._rests = lambda self, there, before: True  # type: ignore[method-assign]
