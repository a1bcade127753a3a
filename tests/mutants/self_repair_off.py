"""Mutant: `wait` does not enqueue items again that the cloud has lost."""

from tidemill.client import Status
from tidemill.client.watch import wait


def never(self: wait.Repairs, status: Status) -> bool:
    return False


def apply() -> None:
    wait.Repairs.worth_it = never  # type: ignore[method-assign]
