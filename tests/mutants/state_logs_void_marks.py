"""Mutant: whatever is newer than the mark voids it, also a log."""

from tidemill.state.grown import Grown


def apply() -> None:
    Grown.has = Grown.only = lambda self, path: False  # type: ignore[method-assign]
