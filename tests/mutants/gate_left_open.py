"""Mutant: a worker runs the items of a job that waits for another one."""

from __future__ import annotations

from tidemill.worker.jobs import LeasedJob


def apply() -> None:
    LeasedJob.gate = lambda self: None  # type: ignore[method-assign, assignment]
