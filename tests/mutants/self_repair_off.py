"""Mutant: `wait` does not enqueue items again that the cloud has lost."""

from tidemill.client import Status, waiting


def never(self: waiting.Repairs, status: Status) -> bool:
    return False


def apply() -> None:
    waiting.Repairs.worth_it = never  # type: ignore[method-assign]
