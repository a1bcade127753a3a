"""Mutant: an attempt steps over the snapshots of a later one."""

from tidemill.state import Snapshot, Snapshots


def apply() -> None:
    Snapshots._settle = step_over  # type: ignore[method-assign]


def step_over(self: Snapshots, standing: Snapshot) -> None:
    self._last = standing.seq
