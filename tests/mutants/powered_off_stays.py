"""Mutant: machines that have powered themselves off are left in their group."""

from typing import Any

from components.services.pubsub.reconciler_function import decide


def nothing(*_: Any) -> list[decide.Decision]:
    return []


def apply() -> None:
    decide._powered_off = nothing
