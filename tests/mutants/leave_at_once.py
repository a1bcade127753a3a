"""Mutant: a worker takes one empty pull for idleness."""

from tidemill.worker.idle import Idle


def leave(self: Idle) -> bool:
    return self._empty >= 1


def apply() -> None:
    Idle.leave = leave  # type: ignore[method-assign]
