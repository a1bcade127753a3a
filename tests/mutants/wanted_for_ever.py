"""Mutant: the reconciler removes machines that are off, but not wanted ones that never came up."""

from components.services.pubsub.reconciler_function import decide


def apply() -> None:
    decide._never_there = lambda *_: []
