"""Mutant: `wait` does not enqueue items again that the cloud has lost."""

from tidemill.client import Status, job


def never(self: job._Repairs, status: Status) -> bool:
    return False


def apply() -> None:
    job._Repairs.worth_it = never  # type: ignore[method-assign]
