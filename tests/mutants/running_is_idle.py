"""Mutant: the reconciler takes a running machine for one that has left."""

from components.services.pubsub.reconciler_function import decide


def apply() -> None:
    decide.OFF = decide.OFF | {"RUNNING"}
