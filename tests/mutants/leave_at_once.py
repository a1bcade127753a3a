"""Mutant: a worker treats one empty pull as idleness."""

from tidemill.worker.idle import IdlePolicy


def leave(self: IdlePolicy) -> bool:
    return self._empty >= 1


def apply() -> None:
    IdlePolicy.leave = leave  # type: ignore[method-assign]
