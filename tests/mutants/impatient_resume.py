"""Mutant: `resume` treats everything that the queue does not show as lost, however young it is."""

from __future__ import annotations

from typing import Any

from tidemill.client.rounds import deliveries, rounds


def reconcile(*arguments: Any, **more: Any) -> deliveries.Deliveries:
    sound = deliveries._young
    deliveries._young = lambda written, now, grace_seconds: False
    try:
        return deliveries.reconcile(*arguments, **more)
    finally:
        deliveries._young = sound


def apply() -> None:
    rounds.reconcile = reconcile
