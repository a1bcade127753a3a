"""Mutant: the mark stands for whatever is in the folder when a worker looks."""

from tidemill.state.mark import Mark


def apply() -> None:
    Mark.stands = lambda self, mark, there, *, rested: True  # type: ignore[method-assign]
    Mark.still = lambda self, mark: True  # type: ignore[method-assign]
