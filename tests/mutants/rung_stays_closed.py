"""Mutant: the On-Demand rung never opens, however dry the Spot market is."""

from typing import Any

from components.services.pubsub.reconciler_function import decide


def nothing(*_: Any) -> list[decide.Decision]:
    return []


def apply() -> None:
    decide._rung = nothing
