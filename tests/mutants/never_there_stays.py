"""Mutant: machines that are wanted and never came stay wanted, as with an autoscaler that only adds machines."""

from typing import Any

from components.services.pubsub.reconciler_function import decide


def nothing(*_: Any) -> list[decide.Decision]:
    return []


def apply() -> None:
    decide._never_there = nothing
